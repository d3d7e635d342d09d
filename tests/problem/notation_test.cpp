// The one-line notation: what it says, what it prints, and how it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jfa/jfa.hpp"

namespace jfa {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& line) {
  try {
    parse_problem(line);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << line;
  return {};
}

TEST(Notation, DefaultsAndOrder) {
  const Problem p = parse_problem("q=17,0,513 bwd h=8 fp16 hkv=2 dv=128 mask=causal d=64");
  EXPECT_EQ(p.direction, Direction::backward);
  EXPECT_EQ(p.dtype, DType::float16);
  EXPECT_EQ(p.dim, 64);
  EXPECT_EQ(p.value_dim, 128);
  EXPECT_EQ(p.heads, 8);
  EXPECT_EQ(p.kv_heads, 2);
  EXPECT_EQ(p.mask.kind, MaskKind::causal);
  EXPECT_FALSE(p.kv.has_value());
  EXPECT_EQ(to_string(p), "bwd fp16 d=64 dv=128 h=8 hkv=2 mask=causal q=17,0,513");
}

TEST(Notation, ValueWidthAndKeyHeadsFollowTheQueries) {
  const Problem p = parse_problem("fwd float32 q=3 d=40 h=6");
  EXPECT_EQ(p.value_dim, 40);
  EXPECT_EQ(p.kv_heads, 6);
}

// Lines in canonical form come back as they are.
TEST(Notation, RoundTrip) {
  const std::vector<std::string> lines = {
      "fwd bf16 d=128 h=4 mask=full q=17,0,513",
      "bwd fp16 d=64 dv=128 h=8 hkv=2 mask=causal q=lognormal:batch=1152,clip=1000,seed=1",
      "fwd bf16 d=128 h=4 act=silu mask=hstu:contextual=2,targets=20 q=@lengths.txt",
      "fwd bf16 d=8 h=1 mask=full q=",
      "bwd fp32 d=8 h=1 act=leaky_relu slope=0.2 scale=-0.5 out_scale=1e-20 out_scales=token "
      "mask=window:left=3/0,right=7 align=top_left q=5x3 kv=0,1,2",
      "bwd fp32 d=8 h=2 mask=hstu:contextual=1/2,targets=3,group=2,window=5,full=4,causal=0 q=5",
      "fwd fp32 d=8 h=2 mask=prefix_local:prefix=2,local=9 q=5",
      "fwd fp32 d=8 h=2 mask=blocks:size=9/3 q=5",
      "fwd fp32 d=8 h=2 mask=intervals:count=1 q=5",
      "bwd fp32 d=8 h=2 mask=full "
      "bias=dense:sequences=one,heads=one,type=q+alibi:sequences=each+position:n=7,heads=one+"
      "time:buckets=5,heads=one,scale=0.5 q=5",
      "bwd fp32 d=8 h=2 mask=full bias=dense+alibi+position+time q=5",
      "bwd fp32 d=8 h=2 mask=full q=dense:batch=3,rows=7 kv=broadcast:rows=2",
      "bwd fp32 d=8 h=2 mask=full q=broadcast:rows=7 kv=broadcast:rows=2 batch=9 grads=q+bias",
      "fwd fp32 d=8 h=2 mask=full q=1x4 kv=8,9 kv_map=0x2,1x2",
      "fwd fp32 d=8 h=2 mask=full q=1x4 kv=8,9 kv_map=share:2",
      "bwd fp32 d=8 h=2 mask=full q=5 offset0=1 slack=2 holes=3/4 headgap=5 rowgap=6 misalign=7 "
      "magnitude=200 shift=-500000 seed=18446744073709551615 fused int64 expanded deterministic",
  };
  for (const std::string& line : lines) {
    const Problem p = parse_problem(line);
    EXPECT_EQ(to_string(p), line);
    EXPECT_EQ(parse_problem(to_string(p)), p);
  }
}

TEST(Notation, OtherSpellingsOfTheSame) {
  const Problem p = parse_problem("fwd bf16 q=3");
  EXPECT_EQ(parse_problem("  fwd\tbfloat16  q=3 kv=same  mask=full bias=none grads=all\n"), p);
  EXPECT_EQ(parse_problem("fwd bf16 q=3 d=64 h=1 dv=64 hkv=1 seed=1 scale=0.5").scale, 0.5);
}

TEST(Notation, RefusalsMarkThePlaceAndListWhatIsAllowed) {
  const std::string unknown_key = refusal("fwd bf16 dd=128 q=3");
  EXPECT_THAT(unknown_key, HasSubstr("unknown key"));
  EXPECT_THAT(unknown_key, HasSubstr("hkv"));
  EXPECT_THAT(unknown_key, HasSubstr("\n  fwd bf16 dd=128 q=3\n           ^^"));
  EXPECT_THAT(refusal("fwd bf16 q=3 mask=causal:left=3"), HasSubstr("no options"));
  EXPECT_THAT(refusal("fwd bf16 q=3 mask=window:up=3"), HasSubstr("left or right"));
  EXPECT_THAT(refusal("fwd bf16 q=3 mask=diagonal"), HasSubstr("prefix_local"));
  EXPECT_THAT(refusal("fwd bf16 q=3 act=swish"), HasSubstr("silu"));
  EXPECT_THAT(refusal("fwd bf16 q=3 bias=relative"), HasSubstr("position"));
  EXPECT_THAT(refusal("fwd bf16 q=3 grads=o"), HasSubstr("joined by +"));
  EXPECT_THAT(refusal("fwd bf16 q=3 fast"), HasSubstr("deterministic"));
  EXPECT_THAT(refusal("bf16 q=3"), HasSubstr("direction is missing"));
  EXPECT_THAT(refusal("fwd q=3"), HasSubstr("data type is missing"));
  EXPECT_THAT(refusal("fwd bf16"), HasSubstr("query lengths are missing"));
  EXPECT_THAT(refusal("fwd bf16 q=3 q=4"), HasSubstr("given twice"));
  EXPECT_THAT(refusal("fwd bwd bf16 q=3"), HasSubstr("second direction"));
  EXPECT_THAT(refusal("fwd bf16 fp16 q=3"), HasSubstr("second data type"));
  EXPECT_THAT(refusal(""), HasSubstr("direction is missing"));
}

TEST(Notation, NumbersAreChecked) {
  for (const std::string word : {"d=0",
                                 "d=-1",
                                 "d=9999999999999999999999",
                                 "d=3.5",
                                 "d=",
                                 "h=0",
                                 "hkv=0",
                                 "dv=0",
                                 "slack=-1",
                                 "misalign=64",
                                 "scale=nan",
                                 "scale=inf",
                                 "scale=1e999",
                                 "out_scale=",
                                 "magnitude=-1",
                                 "seed=-1",
                                 "batch=-2",
                                 "mask=blocks:size=0",
                                 "mask=hstu:group=0",
                                 "mask=hstu:causal=2",
                                 "mask=window:left=-2",
                                 "mask=window:left=3,left=4",
                                 "mask=window:left",
                                 "kv_map=share:0",
                                 "kv_map=-1",
                                 "kv_map=0x99999999",
                                 "kv_map=0,,1",
                                 "holes=1//2",
                                 "bias=position:n=0",
                                 "bias=time:buckets=0",
                                 "bias=dense:heads=two",
                                 "bias=dense+",
                                 "kv=dense:batch=-1",
                                 "kv=dense:",
                                 "kv=broadcast:rows=x",
                                 "kv=3,-1",
                                 "kv=3x",
                                 "kv=uniform:",
                                 "kv=normal:batch=3",
                                 "kv=zipf:batch=1.5",
                                 "kv=@"}) {
    EXPECT_THAT(refusal("fwd bf16 q=3 " + word), HasSubstr(word.substr(0, word.find('='))));
  }
}

TEST(Notation, BytesOfAnyKindAreRefusedNotPrinted) {
  const std::string message = refusal(std::string("fwd bf16 q=3 \x01\xff=\x1b[31m", 21));
  for (const char c : message) EXPECT_NE(c, '\x1b');
}

TEST(Notation, HelpNamesEveryKey) {
  for (const char* key : {"d=", "dv=", "mask=", "kv_map=", "holes=", "fused", "expanded"}) {
    EXPECT_THAT(problem_notation(), HasSubstr(key));
  }
}

}  // namespace
}  // namespace jfa
