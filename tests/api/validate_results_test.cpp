// Bad outputs and gradients: wrong shapes and types, memory that is shared or maps to itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "api/call.hpp"
#include "jfa/jfa.hpp"

namespace jfa {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return std::string("InvalidArgument: ") + error.what();
  } catch (const InvalidType& error) {
    return std::string("InvalidType: ") + error.what();
  }
  return "accepted";
}

std::string forward(const std::function<void(ForwardArgs&)>& change,
                    const char* line = "fwd fp32 d=4 dv=6 h=2 q=3,2") {
  const ProblemInstance instance(parse_problem(line));
  ForwardArgs args = instance.forward();
  change(args);
  return message_of([&] { detail::validate_forward(args); });
}

std::string backward(const std::function<void(BackwardArgs&)>& change,
                     const char* line = "bwd fp32 d=4 dv=6 h=2 bias=dense+alibi q=3,2") {
  const ProblemInstance instance(parse_problem(line));
  BackwardArgs args = instance.backward();
  change(args);
  return message_of([&] { detail::validate_backward(args); });
}

TEST(ValidateResults, Output) {
  EXPECT_EQ(forward([](auto&) {}), "accepted");
  EXPECT_THAT(forward([](auto& a) { a.out = {}; }), HasSubstr("out: missing"));
  EXPECT_THAT(forward([](auto& a) { a.out.dtype = DType::float16; }),
              HasSubstr("InvalidType: out: type float16"));
  EXPECT_THAT(forward([](auto& a) { a.out.shape[2] = 4; }),
              AllOf(HasSubstr("out: shape [5, 2, 4]"), HasSubstr("Dv = 6")));
  EXPECT_THAT(forward([](auto& a) { a.out.strides[0] = 0; }), HasSubstr("maps several elements"));
  EXPECT_THAT(forward([](auto& a) { a.out.strides[1] = 5; }), HasSubstr("maps several elements"));
  EXPECT_THAT(forward([](auto& a) { a.out.data = nullptr; }), HasSubstr("out: data is null"));
  EXPECT_THAT(forward([](auto&) {}, "fwd fp32 d=4 h=2 q=broadcast:rows=3 kv=2,4"), "accepted");
  EXPECT_THAT(
      forward([](auto& a) { a.out.shape[0] = 3; }, "fwd fp32 d=4 h=2 q=broadcast:rows=3 kv=2,4"),
      HasSubstr("batch = 2"));
}

TEST(ValidateResults, LogSumExp) {
  EXPECT_EQ(forward([](auto& a) { a.lse = {}; }), "accepted");
  EXPECT_THAT(forward([](auto& a) { a.lse.dtype = DType::float64; }),
              HasSubstr("InvalidType: lse"));
  EXPECT_THAT(forward([](auto& a) { a.lse.shape[0] = 5; }), HasSubstr("lse: shape"));
  EXPECT_THAT(forward([](auto& a) { a.lse.strides = {1, 2, 0, 0}; }), HasSubstr("last stride"));
  EXPECT_THAT(forward([](auto& a) { a.activation = Activation::silu; }),
              HasSubstr("only softmax has a log-sum-exp"));
}

TEST(ValidateResults, SharedMemory) {
  EXPECT_THAT(forward([](auto& a) { a.out.data = a.v.data; }),
              HasSubstr("out: shares memory with v"));
  EXPECT_THAT(forward([](auto& a) { a.lse.data = a.out.data; }), HasSubstr("lse: shares memory"));
  EXPECT_THAT(forward([](auto& a) { a.out.data = static_cast<float*>(a.v.data) + 2 * 12; }),
              HasSubstr("out: shares memory with v"));
  EXPECT_THAT(forward([](auto& a) { a.out.data = a.q_sequences.offsets.data; }),
              HasSubstr("q_sequences.offsets"));
  EXPECT_THAT(backward([](auto& a) { a.d_q.data = a.q.data; }),
              HasSubstr("d_q: shares memory with q"));
  EXPECT_THAT(backward([](auto& a) { a.d_k.data = a.d_q.data; }),
              HasSubstr("d_k: shares memory with d_q"));
  EXPECT_THAT(backward([](auto& a) { a.d_v.data = a.d_out.data; }),
              HasSubstr("d_v: shares memory with d_out"));
  // Views that interleave share nothing.
  for (const char* line : {"bwd bf16 d=8 h=2 q=3,4 fused", "bwd bf16 d=8 h=2 q=3,4 fused headgap=8",
                           "bwd bf16 d=8 h=2 q=dense:batch=2,rows=3 fused"}) {
    EXPECT_EQ(backward([](auto&) {}, line), "accepted") << line;
  }
}

TEST(ValidateResults, SavedByForward) {
  EXPECT_THAT(backward([](auto& a) { a.out = {}; }), HasSubstr("out: missing"));
  EXPECT_THAT(backward([](auto& a) { a.lse = {}; }), HasSubstr("lse: missing"));
  EXPECT_THAT(backward([](auto& a) { a.lse.shape[1] = 4; }), HasSubstr("lse: shape"));
  EXPECT_THAT(backward([](auto& a) { a.out.dtype = DType::float16; }),
              HasSubstr("InvalidType: out"));
  EXPECT_EQ(backward([](auto& a) { a.out = {}; }, "bwd fp32 d=4 h=2 act=silu q=3"), "accepted");
}

TEST(ValidateResults, Gradients) {
  EXPECT_EQ(backward([](auto&) {}), "accepted");
  EXPECT_EQ(backward([](auto& a) { a.d_q = a.d_k = a.d_v = {}; }), "accepted");
  EXPECT_THAT(backward([](auto& a) { a.d_out = {}; }), HasSubstr("d_out: missing"));
  EXPECT_EQ(backward([](auto& a) { a.d_out.strides = {}; }), "accepted");  // expanded
  EXPECT_THAT(backward([](auto& a) { a.d_out.shape[2] = 4; }), HasSubstr("d_out: shape"));
  EXPECT_THAT(backward([](auto& a) { a.d_out.dtype = DType::bfloat16; }),
              HasSubstr("InvalidType: d_out"));
  EXPECT_THAT(backward([](auto& a) { a.d_q.shape[0] = 4; }), HasSubstr("d_q: shape [4, 2, 4]"));
  EXPECT_THAT(backward([](auto& a) { a.d_k.dtype = DType::float64; }),
              HasSubstr("InvalidType: d_k"));
  EXPECT_THAT(backward([](auto& a) { a.d_v.strides[0] = 0; }), HasSubstr("d_v: "));
  EXPECT_THAT(backward([](auto& a) { a.d_v.strides[2] = 2; }), HasSubstr("d_v: "));
  EXPECT_THAT(backward([](auto& a) { a.d_bias_dense.shape[3] = 9; }),
              HasSubstr("d_bias_dense: shape"));
  EXPECT_THAT(backward([](auto& a) { a.d_alibi_slopes.dtype = DType::float16; }),
              HasSubstr("InvalidType: d_alibi_slopes"));
  EXPECT_THAT(backward([](auto& a) { a.d_time_table = a.d_alibi_slopes; }),
              HasSubstr("d_time_table: present, but bias.time_table is not"));
  EXPECT_THAT(backward([](auto& a) { a.d_position_table = a.d_alibi_slopes; }),
              HasSubstr("d_position_table: present, but bias.position_table is not"));
}

TEST(ValidateResults, ReferenceWantsFloat64Results) {
  const ProblemInstance instance(parse_problem("fwd fp32 d=4 h=2 q=3,2"));
  EXPECT_THAT(message_of([&] { reference_forward(instance.forward()); }),
              AllOf(HasSubstr("InvalidType: out"), HasSubstr("float64")));
}

}  // namespace
}  // namespace jfa
