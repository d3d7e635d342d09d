// ldmatrix and stmatrix as one loop over the 16-bit elements of each matrix.
#include "tensor/matrix_load.hpp"

#include <cstring>
#include <stdexcept>

namespace ptxemu::tensor {
namespace {

constexpr unsigned kRows = 8;
constexpr unsigned kLanes = 32;

void check(std::size_t rows, std::size_t registers) {
  if (rows != kRows * registers || (registers != 1 && registers != 2 && registers != 4)) {
    throw std::invalid_argument("ldmatrix/stmatrix: " + std::to_string(registers) +
                                " matrices with " + std::to_string(rows) +
                                " rows; allowed are 1, 2 or 4 matrices of 8 rows");
  }
}

/// Calls visit(lane, half, row, column) for the two elements that each lane owns.
template <class Visit>
void for_each_element(bool transpose, const Visit& visit) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned row = lane / 4;
      const unsigned column = 2 * (lane % 4) + half;
      visit(lane, half, transpose ? column : row, transpose ? row : column);
    }
  }
}

}  // namespace

void load_matrices(std::span<const MatrixRow> rows, bool transpose,
                   std::span<const LaneRegister> registers) {
  check(rows.size(), registers.size());
  for (std::size_t matrix = 0; matrix < registers.size(); ++matrix) {
    for_each_element(transpose, [&](unsigned lane, unsigned half, unsigned row, unsigned column) {
      std::uint16_t value;
      std::memcpy(&value, rows[matrix * kRows + row].data() + 2 * column, sizeof value);
      std::uint32_t& word = registers[matrix][lane];
      word = half == 0 ? value : word | static_cast<std::uint32_t>(value) << 16;
    });
  }
}

void store_matrices(std::span<const ConstLaneRegister> registers, bool transpose,
                    std::span<MatrixRow> rows) {
  check(rows.size(), registers.size());
  for (std::size_t matrix = 0; matrix < registers.size(); ++matrix) {
    for_each_element(transpose, [&](unsigned lane, unsigned half, unsigned row, unsigned column) {
      const auto value = static_cast<std::uint16_t>(registers[matrix][lane] >> (16 * half));
      std::memcpy(rows[matrix * kRows + row].data() + 2 * column, &value, sizeof value);
    });
  }
}

}  // namespace ptxemu::tensor
