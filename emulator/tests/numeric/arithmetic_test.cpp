// Rounded arithmetic against exact residuals, half arithmetic against wide evaluation,
// approximations at their special values.
#include "numeric/arithmetic.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

namespace ptxemu::numeric {
namespace {

float random_float(std::mt19937& random) {
  return std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())),
                    static_cast<int>(random() % 40) - 40);
}

TEST(ArithmeticTest, DirectedRoundingsBracketTheExactResult) {
  std::mt19937 random(3);
  for (int i = 0; i < 50000; ++i) {
    const float a = random_float(random), b = random_float(random), c = random_float(random);
    const long double sum = static_cast<long double>(a) * b + c;  // exact: 48 and 24 bits within 64
    const float down = fma(a, b, c, Rounding::rm), up = fma(a, b, c, Rounding::rp);
    if (std::ilogb(a) + std::ilogb(b) - std::ilogb(c) < 14 &&
        std::ilogb(c) - std::ilogb(a) - std::ilogb(b) < 14) {
      EXPECT_LE(down, sum);
      EXPECT_GE(up, sum);
      EXPECT_TRUE(down == up || std::nextafter(down, up) == up);
    }
    EXPECT_LE(div(a, b, Rounding::rm), static_cast<double>(a) / b);
    EXPECT_GE(div(a, b, Rounding::rp), static_cast<double>(a) / b);
    EXPECT_LE(add(a, c, Rounding::rm), add(a, c, Rounding::rn));
    EXPECT_EQ(mul(a, b, Rounding::rz),
              std::copysign(mul(std::fabs(a), std::fabs(b), Rounding::rm), a * b));
  }
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

TEST(ArithmeticTest, HalfOperationsRoundOnce) {
  std::mt19937 random(4);
  for (int i = 0; i < 200000; ++i) {
    const auto a = static_cast<std::uint16_t>(random()), b = static_cast<std::uint16_t>(random());
    for (const Format format : {Format::f16, Format::bf16}) {
      const double x = decode(format, a), y = decode(format, b);
      if (std::isnan(x) || std::isnan(y)) continue;
      EXPECT_EQ(half_mul(format, a, b), encode(format, x * y));
      // The sum of two numbers of nearby exponents is exact in binary64.
      if (std::fabs(std::log2(std::fabs(x)) - std::log2(std::fabs(y))) < 30) {
        EXPECT_EQ(half_add(format, a, b), encode(format, x + y));
        EXPECT_EQ(half_sub(format, a, b), encode(format, x - y));
      }
    }
  }
}

TEST(ArithmeticTest, FusedHalfMultiplyAddBreaksTiesByTheLastBit) {
  // 257 * 257 is half way between two bf16 numbers; a tiny addend decides.
  const auto bf16 = [](double value) {
    return static_cast<std::uint16_t>(encode(Format::bf16, value));
  };
  const std::uint16_t x = bf16(0x1.02p8);
  const double product = 0x1.02p8 * 0x1.02p8;
  const double below =
      decode(Format::bf16, encode(Format::bf16, product, {.rounding = Rounding::rm}));
  const double above =
      decode(Format::bf16, encode(Format::bf16, product, {.rounding = Rounding::rp}));
  EXPECT_EQ(half_fma(Format::bf16, x, x, bf16(1e-30)),
            bf16(product * (1 + 1e-9) > (below + above) / 2 ? above : below));
  EXPECT_EQ(half_fma(Format::f16, 0xbc00, 0x3c00, 0x0000, {.relu = true}), 0);
}

TEST(ArithmeticTest, ResultsAreFlushedWhenTinyAfterRounding) {
  const auto value = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  const float tiny = value(0x00800000);
  EXPECT_EQ(mul_ftz(value(0x3f7fffff), tiny, Rounding::rn), 0);
  EXPECT_EQ(fma_ftz(value(0xbf7fffff), tiny, 0, Rounding::rm), 0);
  EXPECT_EQ(mul_ftz(value(0x3f7ffffe), value(0x00800001), Rounding::rn), tiny);
  EXPECT_EQ(mul_ftz(value(0x3f7ffffe), value(0x00800001), Rounding::rz), 0);
  EXPECT_EQ(fma_ftz(1, tiny, 0, Rounding::rn), tiny);
  EXPECT_EQ(fma_ftz(2, 3, 0x1p-130f, Rounding::rp), 6);
  EXPECT_TRUE(std::signbit(mul_ftz(-1, 0x1p-130f, Rounding::rn)));
  EXPECT_FALSE(std::signbit(mul_ftz(1, 0x1p-130f, Rounding::rm)));

  EXPECT_EQ(half_mul(Format::f16, 0x0400, 0x3bff, {.flush = true}), 0);
  EXPECT_EQ(half_mul(Format::f16, 0x0400, 0x3bff), 0x0400);
  EXPECT_EQ(half_add(Format::f16, 0x8001, 0x0000, {.flush = true}), 0);
}

TEST(ArithmeticTest, ApproximationsAtSpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ex2_approx(-kInfinity, false), 0);
  EXPECT_EQ(ex2_approx(0x1p-140f, true), 1);
  EXPECT_EQ(ex2_approx(-140, true), 0);
  EXPECT_GT(ex2_approx(-140, false), 0);
  EXPECT_EQ(lg2_approx(0, false), -kInfinity);
  EXPECT_EQ(lg2_approx(0x1p-140f, true), -kInfinity);
  EXPECT_EQ(lg2_approx(8, false), 3);
  EXPECT_EQ(rcp_approx(-0.0f, false), -kInfinity);
  EXPECT_EQ(rsqrt_approx(4, false), 0.5f);
  EXPECT_TRUE(std::isnan(rsqrt_approx(-1, false)));
  EXPECT_EQ(div_approx(1, 0x1p127f, false), 0);
  EXPECT_TRUE(std::isnan(div_approx(kInfinity, 0x1p127f, false)));
  EXPECT_EQ(div_full(1, 0x1p127f, false), 0x1p-127f);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(rcp_approx_f64(3)) & 0xffffffffu, 0u);
  EXPECT_EQ(half_ex2(Format::f16, 0x3c00, false), 0x4000);
  EXPECT_EQ(half_tanh(Format::bf16, 0x0000), 0);
}

}  // namespace
}  // namespace ptxemu::numeric
