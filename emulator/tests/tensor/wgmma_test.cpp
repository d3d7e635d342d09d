// wgmma: every shape and type against a plain triple loop, register and shared operands, errors,
// and both instruction sets. The layouts themselves are compared with hardware in tests/golden.
#include "tensor/wgmma.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "numeric/convert.hpp"
#include "registers.hpp"
#include "tensor/multiply.hpp"

namespace ptxemu::tensor {
namespace {

using numeric::Format;

double number(ElementType type, const std::byte* at) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, element_bytes(type));
  switch (type) {
    case ElementType::f16:
      return numeric::decode(Format::f16, bits);
    case ElementType::bf16:
      return numeric::decode(Format::bf16, bits);
    case ElementType::tf32:
      return numeric::decode(Format::tf32, bits);
    case ElementType::e4m3:
      return numeric::decode(Format::e4m3, bits);
    case ElementType::e5m2:
      return numeric::decode(Format::e5m2, bits);
    case ElementType::s8:
      return static_cast<std::int8_t>(bits);
    default:
      return bits;
  }
}

std::uint32_t small_value(ElementType type, std::mt19937& random) {
  const int value = static_cast<int>(random() % 9) - 4;
  switch (type) {
    case ElementType::f16:
      return numeric::encode(Format::f16, value);
    case ElementType::bf16:
      return numeric::encode(Format::bf16, value);
    case ElementType::tf32:
      return numeric::encode(Format::tf32, value);
    case ElementType::e4m3:
      return numeric::encode(Format::e4m3, value);
    case ElementType::e5m2:
      return numeric::encode(Format::e5m2, value);
    case ElementType::u8:
      return static_cast<std::uint32_t>(std::abs(value));
    default:
      return static_cast<std::uint32_t>(value);
  }
}

constexpr std::uint32_t kBStart = 16384;

/// Operands in shared memory: A and B as dense K-major tiles of core matrices, D small integers in
/// registers.
class Problem {
 public:
  Problem(WgmmaShape shape, std::uint32_t seed)
      : shape_(shape), random_(seed), shared_(40960), d_(4 * shape.d_registers()), a_(16) {
    fill(0, shape.a, 64);
    fill(kBStart, shape.b, shape.n);
    for (std::uint32_t& word : d_.words()) word = accumulator();
    operands_.a_descriptor = descriptor(0, 64).encode();
    operands_.b_descriptor = descriptor(kBStart, shape.n).encode();
    operands_.d_registers = d_.lanes();
  }

  void use_a_registers() {
    const unsigned bytes = element_bytes(shape_.a);
    for (unsigned warp = 0; warp < 4; ++warp) {
      for (unsigned r = 0; r < 4; ++r) {
        for (unsigned lane = 0; lane < 32; ++lane) {
          const unsigned row = 16 * warp + lane / 4 + 8 * (r % 2);
          const unsigned k = (lane % 4) * 4 / bytes + (r / 2) * 16 / bytes;
          std::memcpy(&a_.words()[(warp * 4 + r) * 32 + lane], element(0, 64, row, k, bytes), 4);
        }
      }
    }
    operands_.a_registers = a_.const_lanes();
    std::fill_n(shared_.begin(), 64 * 32, std::byte{0xff});
  }

  /// D after the instruction by a triple loop.
  std::vector<double> reference() {
    const std::vector<double> a = tile(0, shape_.a, 64, operands_.negate_a);
    const std::vector<double> b = tile(kBStart, shape_.b, shape_.n, operands_.negate_b);
    const unsigned k_extent = shape_.k();
    std::vector<double> result(64 * shape_.n);
    for (unsigned row = 0; row < 64; ++row) {
      for (unsigned column = 0; column < shape_.n; ++column) {
        double sum = operands_.scale_d ? read_d(row, column) : 0;
        for (unsigned k = 0; k < k_extent; ++k)
          sum += a[row * k_extent + k] * b[column * k_extent + k];
        result[row * shape_.n + column] = sum;
      }
    }
    return result;
  }

  void expect(const std::vector<double>& expected) {
    for (unsigned row = 0; row < 64; ++row) {
      for (unsigned column = 0; column < shape_.n; ++column) {
        ASSERT_EQ(read_d(row, column), expected[row * shape_.n + column])
            << "row " << row << " column " << column;
      }
    }
  }

  double read_d(unsigned row, unsigned column) {
    const unsigned warp = row / 16, half = row % 16 / 8, lane = row % 8 * 4 + column % 8 / 2;
    if (shape_.d == ElementType::f16) {
      const std::uint32_t word =
          d_.words()[(warp * shape_.d_registers() + column / 8 * 2 + half) * 32 + lane];
      return numeric::f16_to_f32(static_cast<std::uint16_t>(word >> (16 * (column % 2))));
    }
    const std::uint32_t word =
        d_.words()[(warp * shape_.d_registers() + column / 8 * 4 + half * 2 + column % 2) * 32 +
                   lane];
    if (shape_.d == ElementType::s32) return static_cast<std::int32_t>(word);
    return std::bit_cast<float>(word);
  }

  WgmmaOperands& operands() { return operands_; }
  std::vector<std::byte>& shared() { return shared_; }
  Registers& d() { return d_; }

 private:
  /// Core matrices of 8 rows by 16 bytes; the two K halves of the tile lie one after the other.
  static MatrixDescriptor descriptor(std::uint32_t start, unsigned rows) {
    return {.start_address = start, .leading_byte_offset = rows * 16, .stride_byte_offset = 128};
  }
  std::byte* element(std::uint32_t start, unsigned rows, unsigned row, unsigned k, unsigned bytes) {
    return shared_.data() + start + k * bytes / 16 * rows * 16 + row * 16 + k * bytes % 16;
  }
  std::vector<double> tile(std::uint32_t start, ElementType type, unsigned rows, bool negate) {
    std::vector<double> values;
    for (unsigned row = 0; row < rows; ++row) {
      for (unsigned k = 0; k < shape_.k(); ++k) {
        const double value = number(type, element(start, rows, row, k, element_bytes(type)));
        values.push_back(negate ? -value : value);
      }
    }
    return values;
  }
  void fill(std::uint32_t start, ElementType type, unsigned rows) {
    for (unsigned i = 0; i < rows * 32 / element_bytes(type); ++i) {
      const std::uint32_t bits = small_value(type, random_);
      std::memcpy(shared_.data() + start + i * element_bytes(type), &bits, element_bytes(type));
    }
  }
  std::uint32_t accumulator() {
    const auto value = static_cast<int>(random_() % 17) - 8;
    if (shape_.d == ElementType::s32) return static_cast<std::uint32_t>(value);
    if (shape_.d == ElementType::f32)
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return numeric::encode(Format::f16, value) | numeric::encode(Format::f16, value + 1) << 16;
  }

  WgmmaShape shape_;
  std::mt19937 random_;
  std::vector<std::byte> shared_;
  Registers d_, a_;
  WgmmaOperands operands_;
};

std::vector<WgmmaShape> types() {
  using E = ElementType;
  std::vector<WgmmaShape> all = {{.d = E::f32, .a = E::f16, .b = E::f16},
                                 {.d = E::f16, .a = E::f16, .b = E::f16},
                                 {.d = E::f32, .a = E::bf16, .b = E::bf16},
                                 {.d = E::f32, .a = E::tf32, .b = E::tf32}};
  for (const E a : {E::e4m3, E::e5m2}) {
    for (const E b : {E::e4m3, E::e5m2}) {
      for (const E d : {E::f32, E::f16}) all.push_back({.d = d, .a = a, .b = b});
    }
  }
  for (const E a : {E::s8, E::u8}) {
    for (const E b : {E::s8, E::u8}) all.push_back({.d = E::s32, .a = a, .b = b});
  }
  return all;
}

TEST(WgmmaTest, EveryTypeAndWidthEqualsATripleLoop) {
  for (WgmmaShape shape : types()) {
    for (unsigned n = 8; n <= 256; n += 8) {
      shape.n = n;
      if (!wgmma_error(shape).empty()) continue;
      for (const bool in_registers : {false, true}) {
        Problem problem(shape, n);
        problem.operands().scale_d = n % 24 != 0;
        if (shape.d != ElementType::s32) {
          problem.operands().negate_a = n % 16 == 0;
          problem.operands().negate_b = n % 40 == 0;
        }
        const std::vector<double> expected = problem.reference();
        if (in_registers) problem.use_a_registers();
        wgmma(shape, problem.operands(), problem.shared());
        problem.expect(expected);
      }
    }
  }
}

TEST(WgmmaTest, SatfiniteClampsWhereWrappingIsTheDefault) {
  WgmmaShape shape{.n = 8, .d = ElementType::s32, .a = ElementType::u8, .b = ElementType::u8};
  for (const bool satfinite : {false, true}) {
    shape.satfinite = satfinite;
    Problem problem(shape, 1);
    std::fill(problem.shared().begin(), problem.shared().end(), std::byte{200});
    for (std::uint32_t& word : problem.d().words()) word = 0x7fffffff;
    wgmma(shape, problem.operands(), problem.shared());
    EXPECT_EQ(problem.read_d(5, 5),
              satfinite ? 2147483647.0 : 2147483647.0 + 32 * 40000 - 4294967296.0);
  }
}

TEST(WgmmaTest, NanAndInfinityPropagate) {
  const WgmmaShape shape{.n = 16};
  Problem problem(shape, 2);
  const std::uint16_t nan = 0x7fc0, infinity = 0x7f80, one = 0x3f80;
  std::memcpy(problem.shared().data() + 3 * 16, &nan, 2);       // A[3][0]
  std::memcpy(problem.shared().data() + 4 * 16, &infinity, 2);  // A[4][0]
  for (unsigned column = 0; column < 16; ++column)
    std::memcpy(problem.shared().data() + kBStart + column * 16, &one, 2);
  wgmma(shape, problem.operands(), problem.shared());
  EXPECT_TRUE(std::isnan(problem.read_d(3, 7)));
  EXPECT_EQ(problem.read_d(4, 7), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isfinite(problem.read_d(5, 7)));
}

TEST(WgmmaTest, OperandsBeyondSharedMemoryLeaveDAlone) {
  const WgmmaShape shape{.n = 64};
  Problem problem(shape, 3);
  const std::vector<std::uint32_t> before = problem.d().words();
  const std::span<const std::byte> shared = problem.shared();
  EXPECT_THROW(wgmma(shape, problem.operands(), shared.first(kBStart + 64 * 32 - 1)),
               std::out_of_range);
  EXPECT_EQ(problem.d().words(), before);
  EXPECT_NO_THROW(wgmma(shape, problem.operands(), shared.first(kBStart + 64 * 32)));
}

TEST(WgmmaTest, HostileDescriptorsAreExecutedOrRefused) {
  std::mt19937_64 random(9);
  int executed = 0;
  for (int round = 0; round < 3000; ++round) {
    const WgmmaShape shape{.n = 8 + 8 * static_cast<unsigned>(random() % 32)};
    Problem problem(shape, 1);
    problem.operands().a_descriptor = random();
    problem.operands().b_descriptor = random();
    problem.operands().a_major = random() % 2 == 0 ? Major::k : Major::mn;
    problem.operands().b_major = random() % 2 == 0 ? Major::k : Major::mn;
    problem.shared().resize(random() % (1 << 18));
    try {
      wgmma(shape, problem.operands(), problem.shared());
      ++executed;
    } catch (const std::out_of_range&) {
    }
    for (const std::uint32_t chunk : wgmma_footprint(shape, problem.operands()))
      ASSERT_LT(chunk, 1u << 18);
  }
  EXPECT_GT(executed, 0);
}

TEST(WgmmaTest, FootprintIsWhatIsRead) {
  const WgmmaShape shape{.n = 24};
  Problem problem(shape, 4);
  const std::vector<std::uint32_t> footprint = wgmma_footprint(shape, problem.operands());
  EXPECT_EQ(footprint.size(), (64u + 24u) * 2);
  EXPECT_EQ(footprint.front(), 0u);
  EXPECT_EQ(footprint.back(), kBStart + 24 * 32 - 16);
  problem.use_a_registers();
  EXPECT_EQ(wgmma_footprint(shape, problem.operands()).size(), 48u);
}

TEST(WgmmaTest, ErrorsNameTheAllowedShapes) {
  EXPECT_NE(wgmma_error({.n = 12}), "");
  EXPECT_NE(wgmma_error({.n = 264}), "");
  EXPECT_NE(
      wgmma_error({.n = 40, .d = ElementType::s32, .a = ElementType::s8, .b = ElementType::s8}),
      "");
  EXPECT_NE(
      wgmma_error({.n = 64, .d = ElementType::f16, .a = ElementType::bf16, .b = ElementType::bf16}),
      "");
  EXPECT_NE(wgmma_error({.n = 64, .a = ElementType::f16, .b = ElementType::bf16}), "");
  EXPECT_EQ(
      wgmma_error({.n = 24, .d = ElementType::s32, .a = ElementType::s8, .b = ElementType::u8}),
      "");
}

TEST(WgmmaTest, BothInstructionSetsGiveTheSameSums) {
  constexpr unsigned kColumns = 48, kK = 16;
  std::mt19937 random(5);
  std::vector<float> a(kWarpRows * kK), b(kK * kColumns), d(kWarpRows * kColumns);
  for (auto* matrix : {&a, &b, &d}) {
    for (float& value : *matrix)
      value = numeric::bf16_to_f32(static_cast<std::uint16_t>(0x3e00 + random() % 0x300));
  }
  std::vector<float> other = d;
  float_kernels().multiply(a.data(), b.data(), d.data(), kK, kColumns);
  baseline_float_kernels().multiply(a.data(), b.data(), other.data(), kK, kColumns);
  EXPECT_EQ(d, other);
}

}  // namespace
}  // namespace ptxemu::tensor
