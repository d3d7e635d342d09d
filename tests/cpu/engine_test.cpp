// The CPU engine against the float64 reference, on problems that reach every path of it: blocks and
// remainders of tiles, panels and vectors, shared sums, split sequences, every instruction set.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <string>
#include <vector>

#include "jfa/check.hpp"

namespace jfa {
namespace {

void expect_right(const std::string& line, int threads = 2) {
  Execution execution;
  execution.threads = threads;
  const CheckReport report = check(parse_problem(line), execution);
  EXPECT_TRUE(report.passed()) << line << "\n" << to_string(report);
}

void expect_right(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) expect_right(line);
}

// Query and key lengths on both sides of every block size: rows of a register block (6, 12), panels
// (8, 16, 32), blocks of keys (64 … 256) and of rows (96, 192).
TEST(CpuEngine, Lengths) {
  expect_right({
      "bwd fp32 d=64 h=1 q=1,2,3,4,5,6,7,8,9,11,12,13,15,16,17,31,32,33,47,48,49",
      "bwd fp32 d=64 h=1 q=63,64,65,95,96,97,127,128,129,191,192,193",
      "bwd fp32 d=64 h=1 q=255,256,257,385,577 mask=causal",
      "bwd fp32 d=32 h=1 q=1,6,7,96,97,193 kv=577,1,193,16,192,385",
      "fwd bf16 d=128 h=2 q=1,200,385 kv=300,129,64 mask=causal",
      "bwd fp16 d=64 h=2 hkv=1 q=150,1,250 kv=7,333,200",
  });
}

// Few query rows go in lanes of vectors (up to 8, 16 or 32), several heads of a key head together.
TEST(CpuEngine, FewRows) {
  for (const int rows : {1, 2, 3, 5, 8, 9, 16, 17, 31, 32, 33}) {
    const std::string q = std::to_string(rows);
    expect_right({
        "bwd fp32 d=64 h=4 q=broadcast:rows=" + q + " kv=50,0,230,64,65",
        "bwd bf16 d=20 dv=7 h=6 hkv=2 q=" + q + "x3 kv=1,63,300",
        "bwd fp16 d=16 h=12 hkv=1 act=silu q=" + q + "x2 kv=130,33 out_scales=token",
        "bwd fp32 d=32 h=20 q=" + q + "x20 kv=9x20 mask=window:left=4,right=2",
    });
  }
  for (const char* mask : {"causal", "window:left=3,right=2", "hstu:contextual=1,targets=2",
                           "prefix_local:prefix=20,local=40", "intervals:count=2"}) {
    for (const char* activation : {"softmax", "gelu"}) {
      expect_right("bwd fp32 d=16 h=4 hkv=2 q=4,7,1,3 kv=200,5,90,0 align=bottom_right mask=" +
                   std::string(mask) + " act=" + activation);
    }
  }
  expect_right({
      "bwd bf16 d=64 h=8 hkv=2 q=1x70 kv=uniform:batch=70,max=200,fill=0.5,seed=3",
      "bwd fp32 d=64 h=2 q=3 kv=3000",
      "bwd fp32 d=16 h=4 hkv=2 mask=causal q=3,7,1 kv=500,3,260",
      "bwd fp32 d=16 h=24 hkv=8 q=10x3 kv=77x3 mask=causal",
      "bwd fp32 d=8 h=32 hkv=1 q=1,1,2 kv=65,200,3",
  });
}

// What rescales the sums of earlier blocks is exactly 1 when the maximum stays.
TEST(CpuEngine, ThousandsOfKeyBlocks) {
  for (const int rows : {1, 8, 40}) {
    expect_right("fwd fp32 d=8 h=1 kv=100000 q=" + std::to_string(rows));
  }
}

TEST(CpuEngine, HeadDimensions) {
  for (const int d :
       {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 40, 72, 80, 96, 112, 130, 160, 192, 256}) {
    const std::string dim = std::to_string(d);
    expect_right("bwd fp32 d=" + dim + " h=2 q=7,20,33 mask=causal");
    expect_right("bwd bf16 d=16 dv=" + dim + " h=2 q=7,20,40 kv=9,210,3");
  }
}

TEST(CpuEngine, Masks) {
  for (const char* mask :
       {"causal", "window:left=3,right=2", "window:left=100", "window:right=0",
        "hstu:contextual=3,targets=5", "hstu:targets=20,group=4,window=16,full=8",
        "hstu:contextual=2/0/7,targets=3/9,window=5,causal=0", "prefix_local:prefix=20,local=40",
        "blocks:size=64", "blocks:size=7", "intervals:count=1", "intervals:count=2"}) {
    for (const char* align : {"bottom_right", "top_left"}) {
      expect_right("bwd fp32 d=16 h=2 q=7,0,230,64,100 kv=20,5,230,1,333 mask=" +
                   std::string(mask) + " align=" + align);
    }
    expect_right("bwd bf16 d=24 h=2 act=silu q=300,17 mask=" + std::string(mask));
  }
}

TEST(CpuEngine, Activations) {
  for (const char* act : {"softmax", "silu", "gelu", "gelu_tanh", "relu", "relu2", "leaky_relu",
                          "hardswish", "identity"}) {
    const std::string name = act;
    expect_right("bwd fp32 d=32 h=2 q=5,130,33 act=" + name + " magnitude=3");
    expect_right("bwd bf16 d=32 h=2 q=5,130,33 mask=causal out_scales=token act=" + name);
  }
}

TEST(CpuEngine, LargeAndNegativeScores) {
  expect_right({
      "bwd fp32 d=64 h=1 q=33,300 magnitude=200",
      "bwd fp32 d=64 h=1 q=33 shift=-524288",
      "fwd bf16 d=64 h=1 q=33,200 kv=33,210 shift=-200",
      "bwd fp32 d=64 h=1 q=40 scale=-0.3",
      "bwd fp32 d=64 h=1 q=40 scale=0",
  });
}

TEST(CpuEngine, Biases) {
  for (const char* sequences : {"one", "each"}) {
    for (const char* heads : {"one", "each"}) {
      const std::string options =
          ":sequences=" + std::string(sequences) + ",heads=" + std::string(heads);
      expect_right("bwd fp32 d=16 h=4 hkv=2 q=5,0,130,33 kv=7,3,250,100 bias=dense" + options);
      expect_right("bwd bf16 d=16 h=2 q=5,130 mask=causal bias=dense" + options + ",type=q");
    }
    expect_right("bwd fp32 d=16 h=4 hkv=2 q=5,0,300 bias=alibi:sequences=" +
                 std::string(sequences));
    expect_right("bwd fp32 d=16 h=4 hkv=2 q=5,0,300 mask=causal bias=position:n=20,heads=" +
                 std::string(sequences));
    expect_right("bwd fp32 d=16 h=4 act=silu q=5,0,300 bias=time:heads=" + std::string(sequences));
  }
  expect_right("bwd fp32 d=16 h=2 q=broadcast:rows=9 kv=5,0,230 bias=dense+alibi+position+time");
  expect_right("bwd fp32 d=16 h=2 q=200 bias=time:scale=0.01,buckets=900");
}

TEST(CpuEngine, LayoutsAndSharedGradients) {
  expect_right({
      "bwd fp32 d=32 h=2 q=dense:batch=3,rows=20 kv=50,0,230",
      "bwd bf16 d=32 h=2 q=broadcast:rows=32 kv=50,0,230,7,1,400",
      "bwd fp32 d=33 h=4 hkv=2 q=broadcast:rows=5 kv=dense:batch=4,rows=70",
      "bwd bf16 d=32 h=4 hkv=2 q=50,0,230,7 kv=broadcast:rows=70",
      "bwd fp32 d=32 h=2 q=broadcast:rows=50 kv=broadcast:rows=70 batch=5",
      "bwd bf16 d=32 h=2 q=5,6,7,300,2 kv=300,20 kv_map=0,1,0,0,1",
      "bwd fp32 d=32 h=2 q=1x40 kv=300,20 kv_map=share:20 mask=causal",
      "bwd fp32 d=32 h=2 q=20,30 holes=3/0 slack=5 offset0=4 grads=q",
      "bwd bf16 d=32 h=2 q=20,300 grads=k",
      "bwd fp32 d=32 h=2 q=20,300 grads=v expanded",
  });
}

TEST(CpuEngine, EmptyThings) {
  expect_right({
      "bwd fp32 d=16 h=2 q=",
      "bwd fp32 d=16 h=2 q=0,0,0",
      "bwd fp32 d=16 h=2 q=0,0 slack=3",
      "bwd bf16 d=16 h=2 q=5,0,3 kv=0,7,0 slack=2",
      "bwd fp32 d=16 h=2 q=5,3 kv=0,0 bias=dense+alibi+position+time",
      "bwd fp32 d=16 h=2 q=76,34,146 kv=1,1,1 mask=causal",
      "bwd fp32 d=16 h=2 q=broadcast:rows=4 kv=0,0",
  });
}

// One long sequence on several threads is split into tasks of keys and tasks of queries.
TEST(CpuEngine, SplitSequences) {
  for (const int threads : {1, 3, 8}) {
    expect_right("bwd fp32 d=16 h=1 q=900 mask=causal", threads);
    expect_right("bwd bf16 d=40 h=2 hkv=1 q=700 kv=820 bias=alibi", threads);
    expect_right("bwd bf16 d=16 h=1 q=600,3 bias=dense:sequences=one", threads);
  }
}

// The forward and backward passes of every instruction set that this machine has.
TEST(CpuEngine, EveryInstructionSet) {
  const std::int64_t all = hwy::SupportedTargets();
  for (std::int64_t rest = all; rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(target));
    for (const char* dtype : {"fp32", "bf16", "fp16"}) {
      const std::string type = dtype;
      expect_right("bwd " + type + " d=64 h=2 q=17,200,1 mask=causal");
      expect_right("bwd " + type + " d=33 dv=7 h=2 hkv=1 q=17,70 kv=100,5 act=gelu");
      for (const char* rows : {"1,2,4,9,16", "3,5,7,8,12"}) {  // few: in lanes
        expect_right("bwd " + type + " d=32 h=4 hkv=2 mask=causal q=" + rows + " kv=70,33,5,9,200");
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace
}  // namespace jfa
