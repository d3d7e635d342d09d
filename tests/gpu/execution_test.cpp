// What a call on a device takes and refuses: plans, workspaces, streams, values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <string>

#include "api/scalar.hpp"
#include "gpu/test_device.hpp"
#include "jfa/jfa.hpp"

namespace jfa {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kLine = "fwd bf16 d=64 h=2 mask=causal q=40,0,150,7";

class DeviceExecution : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = test::why_no_device(context_)) GTEST_SKIP() << *reason;
    execution_.device = parse_device(test::device_name());
  }

  // The message of what `run` throws.
  template <typename Exception, typename Run>
  static std::string message_of(const Run& run) {
    try {
      run();
    } catch (const Exception& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  void expect_right(ProblemInstance& instance, DeviceInstance& copy) {
    // `check` compares with the reference; here the CPU engine is near enough.
    copy.copy_back();
    const ForwardArgs& args = instance.forward();
    std::vector<float> lse(static_cast<std::size_t>(args.lse.elements()));
    std::vector<std::uint16_t> out(static_cast<std::size_t>(args.out.elements()));
    ForwardArgs again = args;
    again.out = contiguous(out.data(), args.out.dtype,
                           {args.out.shape[0], args.out.shape[1], args.out.shape[2]});
    again.lse = contiguous(lse.data(), DType::float32, {args.lse.shape[0], args.lse.shape[1]});
    attention_forward(again);
    const auto* found = static_cast<const float*>(args.lse.data);
    for (std::size_t i = 0; i < lse.size(); ++i) {
      if (std::isinf(lse[i])) {
        ASSERT_EQ(found[i], lse[i]) << i;
      } else {
        ASSERT_NEAR(found[i], lse[i], 1e-4) << i;
      }
    }
    EXPECT_EQ(instance.memory_violation(), "");
  }

  runtime::Context* context_ = nullptr;
  Execution execution_;
};

TEST_F(DeviceExecution, APlanServesManyCallsAndStreams) {
  ProblemInstance instance(parse_problem(kLine));
  DeviceInstance copy(instance, execution_.device);
  const Plan plan = make_plan(copy.forward(), execution_);
  context_->synchronize();
  EXPECT_EQ(forward_workspace_bytes(copy.forward(), execution_, plan), 0U);
  const runtime::Stream other(*context_);
  for (void* stream : {static_cast<void*>(nullptr), static_cast<void*>(other.handle()),
                       static_cast<void*>(nullptr)}) {
    execution_.stream = stream;
    instance.poison();
    copy.poison();
    context_->synchronize();
    attention_forward(copy.forward(), execution_, &plan);
    context_->synchronize(stream);
    expect_right(instance, copy);
  }
}

TEST_F(DeviceExecution, MemoryOfTheCallerTakesThePlaceOfAllocations) {
  ProblemInstance instance(parse_problem(std::string(kLine) + " rowgap=1"));
  DeviceInstance copy(instance, execution_.device);
  const runtime::Buffer plan_memory(*context_, plan_bytes(copy.forward(), execution_));
  execution_.plan_memory = plan_memory.data();
  execution_.plan_memory_bytes = plan_memory.bytes();
  const Plan plan = make_plan(copy.forward(), execution_);
  const std::size_t copies = forward_workspace_bytes(copy.forward(), execution_, plan);
  EXPECT_GT(copies, 0U);
  EXPECT_EQ(forward_workspace_bytes(copy.forward(), execution_, Plan{}),
            copies + plan_memory.bytes());
  const runtime::Buffer workspace(*context_, copies + plan_memory.bytes());
  execution_.workspace = workspace.data();
  execution_.workspace_bytes = workspace.bytes();
  for (const Plan* with : {&plan, static_cast<const Plan*>(nullptr)}) {
    instance.poison();
    copy.poison();
    context_->fill(workspace.data(), 0xff, workspace.bytes());
    attention_forward(copy.forward(), execution_, with);
    expect_right(instance, copy);
  }
  execution_.workspace_bytes = copies - 1;
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { attention_forward(copy.forward(), execution_, &plan); }),
      StartsWith("workspace_bytes: " + std::to_string(copies - 1)));
  execution_.workspace_bytes = copies;
  execution_.workspace = static_cast<std::byte*>(workspace.data()) + 16;
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { attention_forward(copy.forward(), execution_, &plan); }),
      HasSubstr("no multiple of 256 bytes"));
  execution_.plan_memory_bytes = 1;
  EXPECT_THAT(message_of<InvalidArgument>([&] { make_plan(copy.forward(), execution_); }),
              StartsWith("plan_memory_bytes: 1"));
}

TEST_F(DeviceExecution, APlanForOtherArgumentsIsRefused) {
  ProblemInstance instance(parse_problem(kLine));
  const DeviceInstance copy(instance, execution_.device);
  const auto refusal = [&](const char* line) {
    ProblemInstance other(parse_problem(line));
    const DeviceInstance other_copy(other, execution_.device);
    const Plan plan = make_plan(other_copy.forward(), execution_);
    return message_of<InvalidArgument>(
        [&] { attention_forward(copy.forward(), execution_, &plan); });
  };
  EXPECT_THAT(refusal("fwd bf16 d=64 h=2 mask=causal q=40,157"), HasSubstr("a batch of 2"));
  EXPECT_THAT(refusal("fwd bf16 d=64 h=2 mask=causal q=40,0,150,8"),
              HasSubstr("query rows of 198"));
  EXPECT_THAT(refusal("fwd bf16 d=64 h=2 q=40,0,150,7"), HasSubstr("another mask"));
  EXPECT_THAT(refusal("fwd bf16 d=64 h=2 mask=causal align=top_left q=40,0,150,7"),
              HasSubstr("another mask"));
  EXPECT_THAT(refusal("fwd bf16 d=256 h=2 mask=causal q=40,0,150,7"), HasSubstr("tiles"));
  EXPECT_THAT(refusal("fwd bf16 d=64 h=4 hkv=2 mask=causal q=40,0,150,7"), HasSubstr("tiles"));
  EXPECT_THAT(refusal("fwd bf16 d=64 h=2 mask=causal q=40,0,150,7 kv=40,0,150,7 kv_map=0,1,2,3"),
              HasSubstr("kv_map"));
  EXPECT_THAT(refusal("fwd bf16 d=64 h=2 mask=causal q=40,0,150,7 holes=1"), HasSubstr("197"));

  const Plan on_cpu = make_plan(instance.forward());
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { attention_forward(copy.forward(), execution_, &on_cpu); }),
      HasSubstr("made for cpu"));
  const Plan on_device = make_plan(copy.forward(), execution_);
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { attention_forward(instance.forward(), {}, &on_device); }),
      HasSubstr("made for another device"));
}

// Views that one-line problems cannot describe: the first rows of longer blocks, one block of keys
// for all sequences, log-sum-exps further apart than they need be.
TEST_F(DeviceExecution, ViewsOfPaddedAndExpandedTensors) {
  struct View {
    const char* name;
    std::int64_t rows;  // of each sequence of 40
    bool expanded_keys;
    bool expanded_values;
  };
  for (const View& view :
       {View{"padded", 33, false, false}, View{"keys expanded", 40, true, false},
        View{"values expanded", 33, false, true}, View{"both expanded", 40, true, true}}) {
    const auto narrowed = [&](ForwardArgs args) {
      for (Tensor* tensor : {&args.q, &args.k, &args.v, &args.out}) tensor->shape[1] = view.rows;
      if (view.expanded_keys) args.k.strides[0] = 0;
      if (view.expanded_values) args.v.strides[0] = 0;
      args.lse.shape[1] = args.q.shape[0] * view.rows;
      return args;
    };
    const Problem problem = parse_problem("fwd bf16 d=64 h=2 mask=causal q=dense:batch=3,rows=40");
    ProblemInstance on_device(problem);
    ProblemInstance on_cpu(problem);
    DeviceInstance copy(on_device, execution_.device);
    for (ProblemInstance* instance : {&on_device, &on_cpu}) instance->poison();
    copy.poison();
    attention_forward(narrowed(copy.forward()), execution_);
    attention_forward(narrowed(on_cpu.forward()));
    copy.copy_back();
    const ForwardArgs found = narrowed(on_device.forward());
    const ForwardArgs expected = narrowed(on_cpu.forward());
    const auto near = [&](const Tensor& a, const Tensor& b, double most) {
      detail::for_each_index(a, [&](const std::array<std::int64_t, 4>& index) {
        ASSERT_NEAR(detail::real_at(a, index), detail::real_at(b, index), most)
            << view.name << " row " << index[0] << ", " << index[1];
      });
    };
    near(found.out, expected.out, 0.02);
    near(found.lse, expected.lse, 1e-4);
  }
}

TEST_F(DeviceExecution, MultiprocessorsAreLeftToOthers) {
  ProblemInstance instance(parse_problem(kLine));
  DeviceInstance copy(instance, execution_.device);
  const int all = context_->info().multiprocessors;
  execution_.sm_margin = all - 1;
  instance.poison();
  copy.poison();
  attention_forward(copy.forward(), execution_);
  expect_right(instance, copy);
  for (const int wrong : {-1, all}) {
    execution_.sm_margin = wrong;
    EXPECT_THAT(message_of<InvalidArgument>([&] { attention_forward(copy.forward(), execution_); }),
                StartsWith("sm_margin: " + std::to_string(wrong)));
  }
}

TEST_F(DeviceExecution, ValuesAreCheckedWhenAskedFor) {
  ProblemInstance instance(parse_problem(kLine));
  auto* offsets = static_cast<std::int32_t*>(instance.forward().q_sequences.offsets.data);
  DeviceInstance good(instance, execution_.device);
  offsets[4] = 300;  // the tensor has 197 rows
  DeviceInstance bad(instance, execution_.device);
  const Plan plan = make_plan(good.forward(), execution_);
  offsets[4] = 197;
  offsets[1] = offsets[2] = 39;
  DeviceInstance other(instance, execution_.device);

  attention_forward(bad.forward(), execution_);  // clamped: no report, no fault
  context_->synchronize();
  ASSERT_EQ(setenv("JFA_CHECK", "1", 1), 0);
  EXPECT_THAT(message_of<InvalidArgument>([&] { attention_forward(bad.forward(), execution_); }),
              StartsWith("q_sequences.offsets[4] = 300 exceeds the 197 rows"));
  EXPECT_THAT(
      message_of<InvalidArgument>([&] { attention_forward(other.forward(), execution_, &plan); }),
      HasSubstr("other query offsets: sequence 0 had rows 0 … 40, here 0 … 39"));
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { attention_forward(good.forward(), execution_, &plan); }),
      "nothing was thrown");
  ASSERT_EQ(unsetenv("JFA_CHECK"), 0);
}

TEST_F(DeviceExecution, StatisticsOfAPlanAreThoseOfItsProblem) {
  ProblemInstance instance(parse_problem(kLine));
  const DeviceInstance copy(instance, execution_.device);
  const PlanStatistics device = make_plan(copy.forward(), execution_).statistics();
  const PlanStatistics cpu = make_plan(instance.forward()).statistics();
  EXPECT_EQ(device.batch, 4);
  EXPECT_EQ(device.empty_sequences, 1);
  EXPECT_EQ(device.query_rows, 197);
  EXPECT_EQ(device.visible_pairs, cpu.visible_pairs);
  EXPECT_EQ(device.padded_pairs, cpu.padded_pairs);
  EXPECT_GE(device.tiles, 2);
  EXPECT_GE(device.computed_pairs, device.visible_pairs);
}

TEST_F(DeviceExecution, WhatKernelsLackIsRefused) {
  const auto refusal = [&](const char* line) {
    return message_of<Unsupported>([&] { check(parse_problem(line), execution_); });
  };
  EXPECT_THAT(refusal("bwd bf16 d=64 h=2 q=3"), HasSubstr("no backward pass yet"));
  EXPECT_THAT(refusal("fwd fp32 d=64 h=2 q=3"), StartsWith("q: type float32"));
  EXPECT_THAT(refusal("fwd bf16 d=264 h=2 q=3"), StartsWith("q: head dimension 264"));
  EXPECT_THAT(refusal("fwd bf16 d=64 dv=12 h=2 q=3"), StartsWith("v: head dimension 12"));
  EXPECT_THAT(refusal("fwd bf16 d=64 h=2 q=3 bias=position:n=3"),
              StartsWith("bias.position_table: present"));
}

}  // namespace
}  // namespace jfa
