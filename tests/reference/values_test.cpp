// Results of the reference that can be worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "jfa/jfa.hpp"

namespace jfa {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One sequence in one head, all in float64.
struct Single {
  Single(std::vector<double> queries, std::vector<double> keys, std::vector<double> values,
         std::int64_t dim, std::int64_t value_dim)
      : q(std::move(queries)), k(std::move(keys)), v(std::move(values)) {
    const auto rows = static_cast<std::int64_t>(q.size()) / dim;
    const auto key_rows = static_cast<std::int64_t>(k.size()) / dim;
    q_offsets = {0, static_cast<std::int32_t>(rows)};
    k_offsets = {0, static_cast<std::int32_t>(key_rows)};
    out.assign(static_cast<std::size_t>(rows * value_dim), NAN);
    lse.assign(static_cast<std::size_t>(rows), NAN);
    args.q = contiguous(q.data(), DType::float64, {rows, 1, dim});
    args.k = contiguous(k.data(), DType::float64, {key_rows, 1, dim});
    args.v = contiguous(v.data(), DType::float64, {key_rows, 1, value_dim});
    args.q_sequences.offsets = contiguous(q_offsets.data(), DType::int32, {2});
    args.kv_sequences.offsets = contiguous(k_offsets.data(), DType::int32, {2});
    args.out = contiguous(out.data(), DType::float64, {rows, 1, value_dim});
    args.lse = contiguous(lse.data(), DType::float64, {1, rows});
  }

  std::vector<double> q, k, v, out, lse;
  std::vector<std::int32_t> q_offsets, k_offsets;
  ForwardArgs args;
};

TEST(ReferenceValues, OneKeyGivesItsValueAndItsScore) {
  Single s({1, 2}, {3, -1}, {5, 7, 9}, 2, 3);
  reference_forward(s.args);
  EXPECT_EQ(s.out, (std::vector<double>{5, 7, 9}));
  EXPECT_DOUBLE_EQ(s.lse[0], (1 * 3 - 2 * 1) / std::sqrt(2.0));  // the default scale is 1/√D
}

TEST(ReferenceValues, EqualScoresGiveTheMean) {
  Single s({0}, {1, 2, 3, 4}, {1, 2, 3, 6}, 1, 1);
  reference_forward(s.args);
  EXPECT_DOUBLE_EQ(s.out[0], 3);
  EXPECT_DOUBLE_EQ(s.lse[0], std::log(4.0));
}

TEST(ReferenceValues, TwoKeysByHand) {
  Single s({1}, {std::log(1.0), std::log(3.0)}, {10, 20}, 1, 1);
  s.args.scale = 1.0;
  s.args.out_scale = 2.0;
  reference_forward(s.args);
  EXPECT_DOUBLE_EQ(s.out[0], 2 * (0.25 * 10 + 0.75 * 20));
  EXPECT_DOUBLE_EQ(s.lse[0], std::log(4.0));
}

TEST(ReferenceValues, T44_EqualScoresFarBelowZeroGiveTheMean) {
  Single s({-524288}, {1, 1, 1, 1}, {1, 2, 3, 6}, 1, 1);
  s.args.scale = 1.0;
  reference_forward(s.args);
  EXPECT_DOUBLE_EQ(s.out[0], 3);
  EXPECT_DOUBLE_EQ(s.lse[0], -524288 + std::log(4.0));
}

TEST(ReferenceValues, CausalRowsBeforeTheFirstKeySeeNothing) {
  Single s({1, 1, 1}, {1}, {4}, 1, 1);
  s.args.mask.kind = MaskKind::causal;
  reference_forward(s.args);
  EXPECT_EQ(s.out, (std::vector<double>{0, 0, 4}));
  EXPECT_EQ(s.lse[0], -kInfinity);
  EXPECT_EQ(s.lse[1], -kInfinity);
  s.args.mask.alignment = Alignment::top_left;
  reference_forward(s.args);
  EXPECT_EQ(s.out, (std::vector<double>{4, 4, 4}));
}

TEST(ReferenceValues, ABiasOfMinusInfinityHidesAKey) {
  Single s({1, 1}, {1, 1}, {3, 5}, 1, 1);
  std::vector<double> bias = {0, -kInfinity, -kInfinity, -kInfinity};
  s.args.bias.dense = contiguous(bias.data(), DType::float64, {1, 1, 2, 2});
  reference_forward(s.args);
  EXPECT_EQ(s.out, (std::vector<double>{3, 0}));
  EXPECT_EQ(s.lse[1], -kInfinity);
}

TEST(ReferenceValues, IdentityIsAProductOfMatrices) {
  Single s({1, 2, 3, 4}, {1, 0, 0, 1}, {5, 6}, 2, 1);
  s.args.activation = Activation::identity;
  s.args.lse = {};
  reference_forward(s.args);
  EXPECT_EQ(s.out, (std::vector<double>{1 * 5 + 2 * 6, 3 * 5 + 4 * 6}));
}

// Every activation at a few points, from tables of the functions.
TEST(ReferenceValues, Activations) {
  struct Point {
    Activation activation;
    double s;
    double value;
  };
  const std::vector<Point> points = {
      {Activation::silu, 1, 0.7310585786300049},
      {Activation::silu, -2, -0.2384058440442351},
      {Activation::gelu, 1, 0.8413447460685429},
      {Activation::gelu, -2, -0.04550026389635842},
      {Activation::gelu_tanh, 1, 0.8411919906082768},
      {Activation::gelu_tanh, -2, -0.04540230591222725},
      {Activation::relu, 2.5, 2.5},
      {Activation::relu, -1, 0},
      {Activation::relu2, 2.5, 6.25},
      {Activation::relu2, -1, 0},
      {Activation::leaky_relu, 3, 3},
      {Activation::leaky_relu, -3, -0.03},
      {Activation::hardswish, -4, 0},
      {Activation::hardswish, 1, 2.0 / 3},
      {Activation::hardswish, 4, 4},
      {Activation::identity, -7, -7},
  };
  for (const Point& point : points) {
    Single s({point.s}, {1}, {1}, 1, 1);
    s.args.activation = point.activation;
    s.args.lse = {};
    reference_forward(s.args);
    EXPECT_NEAR(s.out[0], point.value, 1e-13)
        << static_cast<int>(point.activation) << " " << point.s;
  }
}

}  // namespace
}  // namespace jfa
