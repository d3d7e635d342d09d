// ldmatrix and stmatrix: places of single elements, and that a store inverts a load.
#include "tensor/matrix_load.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "registers.hpp"

namespace ptxemu::tensor {
namespace {

std::vector<MatrixRow> numbered_rows(unsigned matrices) {
  std::vector<MatrixRow> rows(8 * matrices);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (unsigned column = 0; column < 8; ++column) {
      const auto value = static_cast<std::uint16_t>(row * 8 + column);
      std::memcpy(rows[row].data() + 2 * column, &value, sizeof value);
    }
  }
  return rows;
}

TEST(MatrixLoadTest, LanesOwnNeighbouringElements) {
  for (const unsigned matrices : {1u, 2u, 4u}) {
    Registers registers(matrices);
    load_matrices(numbered_rows(matrices), false, registers.lanes());
    for (unsigned m = 0; m < matrices; ++m) {
      for (unsigned lane = 0; lane < 32; ++lane) {
        const unsigned first = m * 64 + lane / 4 * 8 + lane % 4 * 2;
        EXPECT_EQ(registers.words()[m * 32 + lane], first | (first + 1) << 16);
      }
    }
  }
}

TEST(MatrixLoadTest, TransposeExchangesRowsAndColumns) {
  Registers registers(2);
  load_matrices(numbered_rows(2), true, registers.lanes());
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned first = 64 + lane % 4 * 2 * 8 + lane / 4;
    EXPECT_EQ(registers.words()[32 + lane], first | (first + 8) << 16);
  }
}

TEST(MatrixLoadTest, StoreInvertsLoad) {
  std::mt19937 random(7);
  for (const bool transpose : {false, true}) {
    Registers registers(4), again(4);
    registers.randomise(random);
    std::vector<MatrixRow> rows(32);
    store_matrices(registers.const_lanes(), transpose, rows);
    load_matrices(rows, transpose, again.lanes());
    EXPECT_EQ(again.words(), registers.words());
  }
}

TEST(MatrixLoadTest, RefusesOtherCounts) {
  Registers three(3);
  EXPECT_THROW(load_matrices(numbered_rows(3), false, three.lanes()), std::invalid_argument);
  Registers two(2);
  EXPECT_THROW(load_matrices(numbered_rows(1), false, two.lanes()), std::invalid_argument);
}

}  // namespace
}  // namespace ptxemu::tensor
