// Products on tiles against plain sums. Where the processor has no AMX, only a run with
// JFA_AMX=emulated gets here.
#include "cpu/amx.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace jfa::cpu {
namespace {

std::uint16_t bfloat16_of(int value) {  // exact: few bits
  const auto single = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &single, sizeof(bits));
  return static_cast<std::uint16_t>(bits >> 16);
}

// Whole numbers, so that every order of the sums gives the same bits. Strides are larger than rows,
// and C is NaN where it is not read.
TEST(Amx, ProductsOfWholeNumbersAreExact) {
  if (!amx_usable()) GTEST_SKIP() << "no AMX; JFA_AMX=emulated runs plain loops";
  std::mt19937 random(5);
  const AmxTiles tiles;
  for (const std::int64_t rows : {16, 32, 48}) {
    for (const std::int64_t columns : {16, 32, 48, 128}) {
      for (const std::int64_t depth : {32, 64, 256}) {
        for (const bool add : {false, true}) {
          const std::int64_t lda = depth + 32;
          const std::int64_t ldb = columns + 16;
          const std::int64_t ldc = columns + 16;
          std::vector<int> left(static_cast<std::size_t>(rows * depth));
          std::vector<int> right(static_cast<std::size_t>(depth * columns));
          for (int& value : left) value = static_cast<int>(random() % 17) - 8;
          for (int& value : right) value = static_cast<int>(random() % 17) - 8;
          std::vector<std::uint16_t> a(static_cast<std::size_t>(rows * lda), 0x7FC0);
          std::vector<std::uint16_t> b(static_cast<std::size_t>(depth * ldb), 0x7FC0);
          std::vector<float> c(static_cast<std::size_t>(rows * ldc), add ? 3.0F : NAN);
          for (std::int64_t k = 0; k < depth; ++k) {
            for (std::int64_t i = 0; i < rows; ++i) {
              a[static_cast<std::size_t>(i * lda + k)] =
                  bfloat16_of(left[static_cast<std::size_t>(i * depth + k)]);
            }
            for (std::int64_t j = 0; j < columns; ++j) {
              b[static_cast<std::size_t>((k / 2 * ldb + j) * 2 + k % 2)] =
                  bfloat16_of(right[static_cast<std::size_t>(k * columns + j)]);
            }
          }
          amx_multiply(
              {rows, columns, depth, a.data(), lda * 2, b.data(), ldb * 4, c.data(), ldc * 4, add});
          for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < columns; ++j) {
              int sum = add ? 3 : 0;
              for (std::int64_t k = 0; k < depth; ++k) {
                sum += left[static_cast<std::size_t>(i * depth + k)] *
                       right[static_cast<std::size_t>(k * columns + j)];
              }
              ASSERT_EQ(c[static_cast<std::size_t>(i * ldc + j)], static_cast<float>(sum))
                  << rows << "x" << columns << "x" << depth << " at " << i << ", " << j;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace jfa::cpu
