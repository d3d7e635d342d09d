// ldmatrix and stmatrix: the permutation between 8x8 matrices of 16-bit elements, whose rows lie
// anywhere in shared memory, and registers. The caller reads or writes the rows; row r of matrix i
// has the address that lane 8 * i + r supplies.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "tensor/matrix_types.hpp"

namespace ptxemu::tensor {

using MatrixRow = std::array<std::byte, 16>;

/// `.m8n8.x{1,2,4}{.trans}.b16`: rows.size() == 8 * registers.size(). Register i of lane t gets
/// elements (t/4, 2(t%4)) and (t/4, 2(t%4)+1) of matrix i, or of its transpose.
void load_matrices(std::span<const MatrixRow> rows, bool transpose,
                   std::span<const LaneRegister> registers);
void store_matrices(std::span<const ConstLaneRegister> registers, bool transpose,
                    std::span<MatrixRow> rows);

}  // namespace ptxemu::tensor
