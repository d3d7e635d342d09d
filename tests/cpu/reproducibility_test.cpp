// The same bits whatever the number of threads, the plan and the workspace; sequences that do not
// see each other.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "jfa/jfa.hpp"

namespace jfa {
namespace {

using Bytes = std::vector<std::byte>;

// The elements of a tensor in row-major order.
void append(const Tensor& tensor, Bytes& bytes) {
  if (!tensor.present()) return;
  std::vector<std::int64_t> index(static_cast<std::size_t>(tensor.rank), 0);
  for (std::int64_t n = 0; n < tensor.elements(); ++n) {
    std::int64_t rest = n;
    std::int64_t offset = 0;
    for (int axis = tensor.rank - 1; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      offset += rest % tensor.shape[a] * tensor.strides[a];
      rest /= tensor.shape[a];
    }
    const auto* from = static_cast<const std::byte*>(tensor.data) + offset * size_of(tensor.dtype);
    bytes.insert(bytes.end(), from, from + size_of(tensor.dtype));
  }
}

Bytes results_of(const std::string& line, const Execution& execution, const Plan* plan = nullptr) {
  ProblemInstance instance(parse_problem(line));
  attention_forward(instance.forward(), execution, plan);
  attention_backward(instance.backward(), execution, plan);
  Bytes bytes;
  const BackwardArgs& args = instance.backward();
  for (const Tensor& tensor : {args.out, args.lse, args.d_q, args.d_k, args.d_v, args.d_bias_dense,
                               args.d_alibi_slopes, args.d_position_table, args.d_time_table}) {
    append(tensor, bytes);
  }
  return bytes;
}

Execution with_threads(int threads) {
  Execution execution;
  execution.threads = threads;
  return execution;
}

const std::vector<std::string>& lines() {
  static const std::vector<std::string> kLines = {
      "bwd fp32 d=32 h=2 q=900 mask=causal deterministic",
      "bwd bf16 d=40 h=2 hkv=1 q=700,20 kv=820,3 deterministic",
      "bwd fp32 d=32 h=4 q=lognormal:batch=40,clip=200 deterministic",
      "bwd bf16 d=32 h=2 q=broadcast:rows=32 kv=50,0,230,7,1,400 deterministic",
      "bwd fp32 d=32 h=2 q=50,0,230,7,1,400 kv=broadcast:rows=70 bias=time deterministic",
      "bwd fp32 d=32 h=2 q=1x40 kv=300,20 kv_map=share:20 deterministic",
      "bwd fp32 d=32 h=2 q=4 kv=3000 deterministic",
      "bwd fp16 d=24 h=4 hkv=2 q=3,16,8 kv=1500,30,400 mask=causal deterministic",
      "bwd fp32 d=32 h=4 q=2x80 kv=100x80 deterministic",
      "bwd fp32 d=16 h=2 q=50,300,40 bias=dense:sequences=one+alibi+position+time deterministic",
  };
  return kLines;
}

TEST(Reproducibility, ThreadsDoNotChangeABit) {
  for (const std::string& line : lines()) {
    const Bytes expected = results_of(line, with_threads(1));
    for (const int threads : {2, 3, 8}) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        EXPECT_EQ(results_of(line, with_threads(threads)), expected) << line << " " << threads;
      }
    }
  }
}

TEST(Reproducibility, PlanAndWorkspaceDoNotChangeABit) {
  for (const std::string& line : lines()) {
    const Bytes expected = results_of(line, with_threads(3));
    ProblemInstance instance(parse_problem(line));
    Execution execution = with_threads(3);
    const Plan plan = make_plan(instance.forward(), execution);
    const std::size_t bytes =
        std::max(forward_workspace_bytes(instance.forward(), execution, plan),
                 backward_workspace_bytes(instance.backward(), execution, plan));
    EXPECT_LE(bytes, std::size_t{64} << 20);
    std::vector<std::byte> workspace(bytes + 3, std::byte{0xFF});  // NaN, and any address will do
    execution.workspace = workspace.data() + 3;
    execution.workspace_bytes = bytes;
    EXPECT_EQ(results_of(line, execution, &plan), expected) << line;
    execution.workspace_bytes = bytes / 2;
    EXPECT_THROW(results_of(line, execution, &plan), InvalidArgument);
  }
}

// Self-attention of sequences of 40, 7 and 300 rows; NaN in sequence 1 stays there.
TEST(Isolation, NanStaysInItsSequence) {
  const std::vector<std::int64_t> offsets = {0, 40, 47, 347};
  const std::size_t width = 2 * 16;
  const auto run = [&](float poison) {
    std::vector<std::vector<float>> buffers(8, std::vector<float>(347 * width));
    for (std::size_t b = 0; b < 4; ++b) {
      for (std::size_t i = 0; i < buffers[b].size(); ++i) {
        buffers[b][i] = static_cast<float>((i * 7919 + b * 104729) % 1000) / 500 - 1;
      }
      std::fill_n(buffers[b].begin() + 40 * width, 7 * width, poison);
    }
    std::vector<float> lse(2 * 347);
    std::vector<std::int64_t> offsets_copy = offsets;
    const auto rows = [&](std::size_t b) {
      return contiguous(buffers[b].data(), DType::float32, {347, 2, 16});
    };
    BackwardArgs args;
    args.q = rows(0);
    args.k = rows(1);
    args.v = rows(2);
    args.q_sequences.offsets = args.kv_sequences.offsets =
        contiguous(offsets_copy.data(), DType::int64, {4});
    args.out = rows(4);
    args.lse = contiguous(lse.data(), DType::float32, {2, 347});
    ForwardArgs forward;
    static_cast<AttentionArgs&>(forward) = args;
    forward.out = args.out;
    forward.lse = args.lse;
    args.d_out = rows(3);
    args.d_q = rows(5);
    args.d_k = rows(6);
    args.d_v = rows(7);
    attention_forward(forward, with_threads(2));
    attention_backward(args, with_threads(2));
    std::vector<float> kept;
    for (std::size_t b = 4; b < 8; ++b) {
      kept.insert(kept.end(), buffers[b].begin(), buffers[b].begin() + 40 * width);
      kept.insert(kept.end(), buffers[b].begin() + 47 * width, buffers[b].end());
    }
    return kept;
  };
  const std::vector<float> finite = run(0.5F);
  const std::vector<float> poisoned = run(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(std::memcmp(finite.data(), poisoned.data(), finite.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace jfa
