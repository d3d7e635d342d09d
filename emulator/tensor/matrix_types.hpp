// Element types of tensor-core operands and the register view that the tensor-core functions share.
#pragma once

#include <cstdint>
#include <span>

namespace ptxemu::tensor {

enum class ElementType : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, s8, u8, f64, f32, s32 };

/// Bytes of one element in shared memory (tf32 takes 4).
unsigned element_bytes(ElementType type);

/// One 32-bit register of one warp: 32 consecutive values, one per lane.
using LaneRegister = std::uint32_t*;
using ConstLaneRegister = const std::uint32_t*;

}  // namespace ptxemu::tensor
