// Conversions: every 8- and 16-bit pattern round trips, rounding modes agree with their definition,
// modifiers at the edges.
#include "numeric/convert.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace ptxemu::numeric {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

unsigned width(Format format) {
  switch (format) {
    case Format::f16:
    case Format::bf16:
      return 16;
    case Format::e2m1:
      return 4;
    case Format::e2m3:
    case Format::e3m2:
      return 6;
    default:
      return 8;
  }
}

TEST(ConvertTest, EveryNarrowPatternSurvivesARoundTrip) {
  for (const Format format : {Format::f16, Format::bf16, Format::e4m3, Format::e5m2, Format::e2m1,
                              Format::e2m3, Format::e3m2, Format::ue8m0}) {
    for (std::uint32_t bits = 0; bits < (1u << width(format)); ++bits) {
      const double value = decode(format, bits);
      if (std::isnan(value)) continue;
      for (const Rounding rounding : {Rounding::rn, Rounding::rz, Rounding::rm, Rounding::rp}) {
        EXPECT_EQ(encode(format, value, {.rounding = rounding}), bits) << static_cast<int>(format);
      }
    }
  }
}

TEST(ConvertTest, FastPathsEqualTheGeneralOnes) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double exact = decode(Format::f16, bits);
    EXPECT_TRUE(f16_to_f32(half) == exact || std::isnan(exact)) << bits;
    EXPECT_EQ(std::isnan(f16_to_f32(half)), std::isnan(exact)) << bits;
    const double brain = decode(Format::bf16, bits);
    EXPECT_TRUE(bf16_to_f32(half) == brain || std::isnan(brain)) << bits;
  }
  std::mt19937 random(1);
  for (int i = 0; i < 300000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    EXPECT_EQ(f32_to_f16(value), encode(Format::f16, value)) << value;
    EXPECT_EQ(f32_to_bf16(value), encode(Format::bf16, value)) << value;
  }
}

TEST(ConvertTest, DirectedRoundingsBracketTheValue) {
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    const double value =
        std::ldexp(static_cast<double>(random()) - 2e9, static_cast<int>(random() % 40) - 50);
    for (const Format format : {Format::f16, Format::bf16, Format::tf32, Format::f32}) {
      const auto round = [&](Rounding rounding) {
        return decode(format, encode(format, value, {.rounding = rounding}));
      };
      const double down = round(Rounding::rm), up = round(Rounding::rp), near = round(Rounding::rn);
      EXPECT_LE(down, value);
      EXPECT_GE(up, value);
      EXPECT_EQ(round(Rounding::rz), value < 0 ? up : down);
      if (std::isfinite(down) && std::isfinite(up)) {
        const double to_down = value - down, to_up = up - value;
        EXPECT_EQ(near, to_down < to_up ? down : to_down > to_up ? up : near);
      }
      EXPECT_TRUE(near == down || near == up);
    }
  }
}

TEST(ConvertTest, OverflowAndNanFollowTheModifiers) {
  EXPECT_EQ(encode(Format::f16, 65520), 0x7c00u);
  EXPECT_EQ(encode(Format::f16, 65519), 0x7bffu);
  EXPECT_EQ(encode(Format::f16, 1e9, {.rounding = Rounding::rz}), 0x7bffu);
  EXPECT_EQ(encode(Format::f16, -1e9, {.rounding = Rounding::rp}), 0xfbffu);
  EXPECT_EQ(encode(Format::f16, kInfinity, {.satfinite = true}), 0x7bffu);
  EXPECT_EQ(encode(Format::f16, kNan), 0x7fffu);
  EXPECT_EQ(encode(Format::f16, -3, {.relu = true}), 0u);
  EXPECT_EQ(encode(Format::f16, kNan, {.relu = true}), 0x7fffu);
  EXPECT_EQ(encode(Format::f16, kNan, {.saturate_to_one = true}), 0u);
  EXPECT_EQ(encode(Format::f16, 7, {.saturate_to_one = true}), 0x3c00u);
  EXPECT_EQ(encode(Format::e4m3, 500, {.satfinite = true}), 0x7eu);
  EXPECT_EQ(encode(Format::e4m3, -kInfinity, {.satfinite = true}), 0xfeu);
  EXPECT_EQ(encode(Format::e4m3, kNan, {.satfinite = true}), 0x7fu);
  EXPECT_EQ(encode(Format::e5m2, 1e6, {.satfinite = true}), 0x7bu);
  EXPECT_EQ(encode(Format::tf32, 1.0 + 0x1p-11, {.rounding = Rounding::rna}), 0x3f802000u);
  EXPECT_EQ(encode(Format::tf32, 1.0 + 0x1p-11), 0x3f800000u);
  EXPECT_EQ(encode(Format::bf16, 0x1p-130, {.flush_input = true}), 0u);
}

TEST(ConvertTest, IntegersClampAndNanDependsOnTheWidth) {
  EXPECT_EQ(to_integer(3e9, Rounding::rz, 32, true, false), 0x7fffffffu);
  EXPECT_EQ(static_cast<std::int64_t>(to_integer(-3e9, Rounding::rz, 32, true, false)),
            -0x80000000ll);
  EXPECT_EQ(to_integer(-1, Rounding::rz, 32, false, false), 0u);
  EXPECT_EQ(to_integer(300, Rounding::rz, 8, false, false), 255u);
  EXPECT_EQ(to_integer(2.5, Rounding::rn, 32, true, false), 2u);
  EXPECT_EQ(to_integer(2.5, Rounding::rp, 32, true, false), 3u);
  EXPECT_EQ(to_integer(-2.5, Rounding::rm, 32, true, false), static_cast<std::uint64_t>(-3));
  EXPECT_EQ(to_integer(kNan, Rounding::rn, 32, true, false), 0u);
  EXPECT_EQ(to_integer(kNan, Rounding::rn, 64, true, false), 1ull << 63);
  EXPECT_EQ(to_integer(kNan, Rounding::rn, 32, false, true), 1ull << 31);
  EXPECT_EQ(to_integer(1e30, Rounding::rn, 64, false, true), ~0ull);
}

TEST(ConvertTest, IntegersRoundOnce) {
  EXPECT_EQ(integer_to_f32(0x1000001, false, Rounding::rn), 0x1p24f);
  EXPECT_EQ(integer_to_f32(0x1000001, false, Rounding::rp), 0x1000002p0f);
  EXPECT_EQ(integer_to_f32(static_cast<std::uint64_t>(-0x1000001ll), true, Rounding::rm),
            -0x1000002p0f);
  EXPECT_EQ(integer_to_f32(~0ull, false, Rounding::rn), 0x1p64f);
  EXPECT_EQ(integer_to_f32(~0ull, false, Rounding::rz), 0xffffffp40f);
  EXPECT_EQ(integer_to_f64((1ull << 53) + 1, false, Rounding::rn), 0x1p53);
  EXPECT_EQ(integer_to_f64((1ull << 53) + 1, false, Rounding::rp), 0x1p53 + 2);
  EXPECT_EQ(integer_to_16bit(Format::f16, 70000, false, Rounding::rn), 0x7c00);
  EXPECT_EQ(integer_to_16bit(Format::bf16, 257, false, Rounding::rn), 0x4380);
}

}  // namespace
}  // namespace ptxemu::numeric
