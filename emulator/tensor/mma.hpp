// mma.sync: D = A * B + C within one warp, operands and result in registers in the fragment layouts
// of the PTX manual.
#pragma once

#include <span>
#include <string>

#include "tensor/matrix_types.hpp"

namespace ptxemu::tensor {

struct MmaShape {
  unsigned m = 16, n = 8, k = 16;
  ElementType d = ElementType::f32, a = ElementType::f16, b = ElementType::f16,
              c = ElementType::f32;
  bool satfinite = false;       // integer shapes
  bool a_column_major = false;  // only m8n8k4.f16 has these
  bool b_row_major = false;
};

/// Number of 32-bit registers per lane of each operand (f64 values take two, low word first).
struct MmaRegisters {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

/// Empty when sm_90 has this shape, else what is wrong and what is allowed.
std::string mma_error(const MmaShape& shape);
MmaRegisters mma_registers(const MmaShape& shape);

/// All 32 lanes take part. Register lists have the lengths of mma_registers(); d may alias c.
void mma(const MmaShape& shape, std::span<const ConstLaneRegister> a,
         std::span<const ConstLaneRegister> b, std::span<const ConstLaneRegister> c,
         std::span<const LaneRegister> d);

}  // namespace ptxemu::tensor
