// The inner loops of the tensor-core functions on decoded operands, compiled for several
// instruction sets and chosen at run time.
#pragma once

#include <cstdint>

#include "tensor/matrix_types.hpp"

namespace ptxemu::tensor {

inline constexpr unsigned kColumnBlock =
    16;  // columns per register block: n is padded to a multiple of it
inline constexpr unsigned kWarpRows = 16;  // rows of D that one warp owns

/// Row-major operands; `columns` is a multiple of kColumnBlock and the row stride of b and d.
/// d[16][columns] += a[16][k] * b[k][columns].
struct FloatKernels {
  void (*multiply)(const float* a, const float* b, float* d, unsigned k, unsigned columns);
  /// Accumulator fragment of one warp (n / 2 registers) to and from rows of `columns` floats.
  void (*load_fragment)(const LaneRegister* registers, unsigned n, float* d, unsigned columns);
  void (*store_fragment)(const LaneRegister* registers, unsigned n, const float* d,
                         unsigned columns);
};

/// The best kernels for this processor.
const FloatKernels& float_kernels();
/// The portable ones (for tests).
const FloatKernels& baseline_float_kernels();

}  // namespace ptxemu::tensor
