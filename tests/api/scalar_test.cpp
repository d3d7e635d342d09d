// float16 and bfloat16: every bit pattern there and back, and rounding to nearest even.
#include "api/scalar.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace jfa::detail {
namespace {

TEST(Scalar, EveryHalfSurvives) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = float_from_half(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float_from_half(half_from_float(value))));
    } else {
      ASSERT_EQ(half_from_float(value), half) << bits;
    }
  }
}

TEST(Scalar, EveryBfloat16Survives) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = float_from_bfloat16(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float_from_bfloat16(bfloat16_from_float(value))));
    } else {
      ASSERT_EQ(bfloat16_from_float(value), half) << bits;
    }
  }
}

// Between two neighbours: the nearer one, and the even one from half-way.
template <typename ToFloat, typename FromFloat>
void expect_rounding(std::uint32_t last_finite, ToFloat to_float, FromFloat from_float) {
  for (std::uint32_t bits = 0; bits < last_finite; ++bits) {
    const double low = to_float(static_cast<std::uint16_t>(bits));
    const double high = to_float(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact: one more bit than the type
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(from_float(middle), even) << bits;
    ASSERT_EQ(from_float(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(from_float(std::nextafter(middle, std::numeric_limits<float>::infinity())), bits + 1);
    ASSERT_EQ(from_float(-middle), even | 0x8000);
  }
}

TEST(Scalar, RoundsToNearestEven) {
  expect_rounding(0x7bff, float_from_half, half_from_float);
  expect_rounding(0x7f7f, float_from_bfloat16, bfloat16_from_float);
}

TEST(Scalar, Extremes) {
  EXPECT_EQ(half_from_float(65519.0F), 0x7bff);
  EXPECT_EQ(half_from_float(65520.0F), 0x7c00);
  EXPECT_EQ(half_from_float(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(half_from_float(-1e-30F), 0x8000);
  EXPECT_EQ(bfloat16_from_float(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(Scalar, ElementsOfEveryType) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::float64,
                            DType::int32, DType::int64}) {
    std::uint64_t memory[3] = {};
    const Tensor tensor = contiguous(memory, dtype, {3});
    store_at(tensor, 2, -7);
    EXPECT_EQ(real_at(tensor, 2), -7) << name_of(dtype);
    EXPECT_EQ(real_at(tensor, 1), 0) << name_of(dtype);
  }
}

}  // namespace
}  // namespace jfa::detail
