// mma.sync: the error texts, register counts, and the invariance that tells a wrong fragment map: a
// product with the identity. All shapes are compared with hardware in tests/golden.
#include "tensor/mma.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <stdexcept>

#include "numeric/convert.hpp"
#include "registers.hpp"

namespace ptxemu::tensor {
namespace {

using E = ElementType;

TEST(MmaTest, RegisterCountsAreThoseOfTheInstruction) {
  const auto counts = [](MmaShape shape, unsigned a, unsigned b, unsigned c, unsigned d) {
    EXPECT_EQ(mma_error(shape), "");
    const MmaRegisters registers = mma_registers(shape);
    EXPECT_EQ(registers.a, a);
    EXPECT_EQ(registers.b, b);
    EXPECT_EQ(registers.c, c);
    EXPECT_EQ(registers.d, d);
  };
  counts({.k = 16}, 4, 2, 4, 4);
  counts({.k = 8}, 2, 1, 4, 4);
  counts({.k = 16, .d = E::f16, .c = E::f16}, 4, 2, 2, 2);
  counts({.k = 4, .a = E::tf32, .b = E::tf32}, 2, 1, 4, 4);
  counts({.k = 32, .a = E::e4m3, .b = E::e5m2}, 4, 2, 4, 4);
  counts({.m = 8, .k = 16, .d = E::s32, .a = E::s8, .b = E::u8, .c = E::s32}, 1, 1, 2, 2);
  counts({.k = 16, .d = E::f64, .a = E::f64, .b = E::f64, .c = E::f64}, 16, 8, 8, 8);
  counts({.m = 8, .k = 4, .d = E::f32, .c = E::f16}, 2, 2, 4, 8);
}

TEST(MmaTest, ErrorsNameWhatExists) {
  EXPECT_NE(mma_error({.k = 32}).find("m16n8k16"), std::string::npos);
  EXPECT_NE(mma_error({.a = E::f16, .b = E::bf16}), "");
  EXPECT_NE(mma_error({.d = E::f16, .a = E::bf16, .b = E::bf16, .c = E::f16}), "");
  EXPECT_NE(mma_error({.k = 16, .satfinite = true}), "");
  EXPECT_NE(mma_error({.k = 16, .a_column_major = true}), "");
  Registers few(1);
  EXPECT_THROW(mma({}, few.const_lanes(), few.const_lanes(), few.const_lanes(), few.lanes()),
               std::invalid_argument);
}

TEST(MmaTest, ProductWithTheIdentityReturnsTheLeftOperand) {
  const MmaShape shape{.k = 8};
  Registers a(2), b(1), c(4), d(4);
  std::mt19937 random(6);
  for (std::uint32_t& word : a.words())
    word = numeric::encode(numeric::Format::f16, random() % 100) |
           numeric::encode(numeric::Format::f16, random() % 100) << 16;
  for (unsigned lane = 0; lane < 32;
       ++lane) {  // B[k][n] of lane 4g + q: rows 2q and 2q + 1 of column g
    const unsigned g = lane / 4, q = lane % 4;
    b.words()[lane] = g / 2 != q ? 0 : g % 2 == 0 ? 0x3c00u : 0x3c000000u;
  }
  mma(shape, a.const_lanes(), b.const_lanes(), c.const_lanes(), d.lanes());
  for (unsigned r = 0; r < 4; ++r) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      const std::uint32_t packed = a.words()[(r / 2) * 32 + lane] >> (16 * (r % 2));
      EXPECT_EQ(std::bit_cast<float>(d.words()[r * 32 + lane]),
                numeric::f16_to_f32(static_cast<std::uint16_t>(packed)));
    }
  }
}

TEST(MmaTest, DMayBeC) {
  const MmaShape shape{.k = 16};
  Registers a(4), b(2), c(4);
  for (std::uint32_t& word : c.words()) word = std::bit_cast<std::uint32_t>(2.5f);
  mma(shape, a.const_lanes(), b.const_lanes(), c.const_lanes(), c.lanes());
  for (const std::uint32_t word : c.words()) EXPECT_EQ(word, std::bit_cast<std::uint32_t>(2.5f));
}

}  // namespace
}  // namespace ptxemu::tensor
