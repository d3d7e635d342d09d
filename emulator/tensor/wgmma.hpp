// wgmma.mma_async: D[64][n] = (scale_d ? D : 0) + (+-A)[64][k] * (+-B)[k][n] for one warpgroup, on
// raw shared memory and registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/descriptor.hpp"
#include "tensor/matrix_types.hpp"

namespace ptxemu::tensor {

/// One instruction variant. k follows from the input type: 32 bytes of elements.
struct WgmmaShape {
  unsigned n = 8;
  ElementType d = ElementType::f32;  // f32, f16 (two values per register) or s32
  ElementType a = ElementType::bf16;
  ElementType b = ElementType::bf16;
  bool satfinite = false;  // s32 only

  unsigned k() const { return 32 / element_bytes(b); }
  unsigned d_registers() const { return d == ElementType::f16 ? n / 4 : n / 2; }
};
inline constexpr unsigned kWgmmaARegisters = 4;

/// Empty when the ISA has this shape for sm_90a, else what is wrong and what is allowed.
std::string wgmma_error(const WgmmaShape& shape);

struct WgmmaOperands {
  std::uint64_t a_descriptor = 0;  // used when a_registers is empty
  std::uint64_t b_descriptor = 0;
  Major a_major = Major::k;  // MN major (imm-trans = 1) only for f16 and bf16
  Major b_major = Major::k;
  bool scale_d = true;    // false: D is not read
  bool negate_a = false;  // imm-scale-a == -1
  bool negate_b = false;
  /// Registers of the four warps, warp by warp: a[warp * 4 + r], d[warp * d_registers() + r].
  std::span<const ConstLaneRegister> a_registers;
  std::span<const LaneRegister> d_registers;
};

/// Executes the instruction. `shared` is the CTA's shared memory with shared address 0 at index 0.
/// Throws std::out_of_range when an operand reaches beyond `shared`; D is untouched then.
void wgmma(const WgmmaShape& shape, const WgmmaOperands& operands,
           std::span<const std::byte> shared);

/// The shared-memory chunks (16 bytes each, offsets ascending, unique) that the instruction reads:
/// for checkers.
std::vector<std::uint32_t> wgmma_footprint(const WgmmaShape& shape, const WgmmaOperands& operands);

}  // namespace ptxemu::tensor
