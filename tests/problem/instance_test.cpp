// What a materialised problem promises: NaN wherever no sequence is, values that do not depend on
// the memory layout, guards that notice writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "api/call.hpp"
#include "api/scalar.hpp"
#include "jfa/jfa.hpp"

namespace jfa {
namespace {

using ::testing::HasSubstr;

double at(const Tensor& tensor, std::int64_t row, std::int64_t head, std::int64_t column) {
  return detail::real_at(tensor, {row, head, column, 0});
}

TEST(Instance, UnownedRowsAreNan) {
  const ProblemInstance instance(
      parse_problem("bwd bf16 d=4 h=2 q=2,0,1 holes=1/0/2 offset0=2 slack=1 out_scales=token"));
  const BackwardArgs& args = instance.backward();
  ASSERT_EQ(args.q.shape[0], 2 + 3 + 0 + 3 + 1);
  const std::vector<bool> owned = {false, false, true, true, false, true, false, false, false};
  for (std::int64_t row = 0; row < args.q.shape[0]; ++row) {
    for (const Tensor* tensor : {&args.q, &args.k, &args.v, &args.d_out}) {
      EXPECT_EQ(!std::isnan(at(*tensor, row, 1, 3)), owned[static_cast<std::size_t>(row)]) << row;
    }
    EXPECT_EQ(!std::isnan(static_cast<const float*>(args.out_scales.data)[row]),
              owned[static_cast<std::size_t>(row)]);
  }
  EXPECT_TRUE(std::isnan(at(args.out, 2, 0, 0)));
  EXPECT_TRUE(std::isnan(at(args.d_q, 2, 0, 0)));
}

TEST(Instance, GapsAreNanAndAddressesMiss) {
  const ProblemInstance instance(
      parse_problem("fwd fp32 d=4 h=2 q=3 headgap=2 rowgap=1 misalign=3"));
  const Tensor& q = instance.forward().q;
  EXPECT_EQ(q.strides[1], 6);
  EXPECT_EQ(q.strides[0], 13);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(q.data) % 64, 12U);
  const auto* data = static_cast<const float*>(q.data);
  EXPECT_TRUE(std::isnan(data[4]) && std::isnan(data[5]) && std::isnan(data[12]));
}

TEST(Instance, FusedTensorsAreViewsOfOneBuffer) {
  const ProblemInstance instance(parse_problem("bwd fp16 d=8 dv=16 h=4 hkv=2 q=3,4 fused"));
  const BackwardArgs& args = instance.backward();
  const auto distance = [](const Tensor& a, const Tensor& b) {
    return (static_cast<const char*>(b.data) - static_cast<const char*>(a.data)) / 2;
  };
  EXPECT_EQ(distance(args.q, args.k), 32);
  EXPECT_EQ(distance(args.k, args.v), 16);
  EXPECT_EQ(args.q.strides[0], 32 + 16 + 32);
  EXPECT_EQ(distance(args.d_q, args.d_v), 48);
}

TEST(Instance, ValuesDoNotDependOnMemory) {
  const ProblemInstance a(parse_problem("fwd bf16 d=5 h=2 q=3,4"));
  const ProblemInstance b(parse_problem("fwd bf16 d=5 h=2 q=3,4 offset0=7 headgap=3 fused"));
  for (std::int64_t row = 0; row < 7; ++row) {
    EXPECT_EQ(at(a.forward().q, row, 1, 4), at(b.forward().q, row + 7, 1, 4));
    EXPECT_EQ(at(a.forward().v, row, 1, 4), at(b.forward().v, row + 7, 1, 4));
  }
  const ProblemInstance c(parse_problem("fwd bf16 d=5 h=2 q=3,4 seed=2"));
  EXPECT_NE(at(a.forward().q, 0, 0, 0), at(c.forward().q, 0, 0, 0));
}

TEST(Instance, ScoresHaveTheMagnitudeAndShiftThatTheLineSays) {
  for (const auto& [line, mean, deviation] :
       {std::tuple{"fwd fp32 d=64 h=1 q=200 magnitude=30", 0.0, 30.0},
        std::tuple{"fwd fp32 d=64 h=1 q=200 magnitude=2 scale=-0.5", 0.0, 2.0},
        std::tuple{"fwd fp32 d=64 h=1 q=200 magnitude=0 shift=-500", -500.0, 0.0},
        std::tuple{"fwd fp32 d=64 h=1 q=200 magnitude=0 shift=77 scale=-2", 77.0, 0.0}}) {
    const ProblemInstance instance(parse_problem(line));
    const ForwardArgs& args = instance.forward();
    const double scale = args.scale.value_or(0.125);
    double sum = 0;
    double squares = 0;
    for (std::int64_t i = 0; i < 200; ++i) {
      for (std::int64_t j = 0; j < 200; ++j) {
        double score = 0;
        for (std::int64_t d = 0; d < 64; ++d)
          score += scale * at(args.q, i, 0, d) * at(args.k, j, 0, d);
        sum += score;
        squares += score * score;
      }
    }
    const double found = sum / 40000;
    EXPECT_NEAR(found, mean, 0.02 * std::abs(mean) + 0.2 * deviation) << line;
    EXPECT_NEAR(std::sqrt(std::max(0.0, squares / 40000 - found * found)), deviation,
                0.15 * deviation + 1e-3 * std::abs(mean))
        << line;
  }
}

TEST(Instance, NoticesWrites) {
  ProblemInstance instance(parse_problem("bwd fp32 d=4 h=2 q=3 headgap=1"));
  EXPECT_EQ(instance.memory_violation(), "");
  auto* out = static_cast<float*>(instance.forward().out.data);
  out[0] = 1;  // an element
  EXPECT_EQ(instance.memory_violation(), "");
  out[4] = 1;  // a gap
  EXPECT_THAT(instance.memory_violation(), HasSubstr("beside"));
  instance.poison();
  EXPECT_EQ(instance.memory_violation(), "");
  static_cast<float*>(instance.forward().q.data)[0] += 1;
  EXPECT_THAT(instance.memory_violation(), HasSubstr("input buffer 0"));
}

TEST(Instance, PartsThatDoNotFitAreRefused) {
  const auto refusal = [](const char* line) {
    try {
      const ProblemInstance instance(parse_problem(line));
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal("fwd bf16 q=3,4 kv=5"), HasSubstr("q has 2 sequences and kv 1"));
  EXPECT_THAT(refusal("fwd bf16 q=broadcast:rows=3"), HasSubstr("batch="));
  EXPECT_THAT(refusal("fwd bf16 q=3,4 kv=5 kv_map=0,1"), HasSubstr("key sequence 1"));
  EXPECT_THAT(refusal("fwd bf16 q=3,4 kv=5 kv_map=0"), HasSubstr("1 entries for 2"));
  EXPECT_THAT(refusal("fwd bf16 q=900000000000,900000000000"), HasSubstr("GiB"));
  EXPECT_THAT(refusal("fwd bf16 d=1000000 h=1000000 q=1000000000000"), HasSubstr("2^58"));
  EXPECT_THAT(refusal("fwd bf16 d=1 dv=1 h=1 q=0,0 offset0=1000000 slack=7"), "accepted");
  const ProblemInstance forward(parse_problem("fwd bf16 q=3"));
  EXPECT_THROW(forward.backward(), InvalidArgument);
}

}  // namespace
}  // namespace jfa
