// Element-wise reductions of cp.reduce.async.bulk(.tensor) and red.async: destination = destination
// op source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tma/tensor_map.hpp"

namespace ptxemu::tma {

enum class ReduceOp : std::uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor };

/// Whether the tensor form of the instruction defines `op` on elements of `type`.
bool reduction_exists(ReduceOp op, DataType type);

/// Spans of equal length, a multiple of the element size. Floating-point sums round to nearest
/// even; f32 sums flush subnormals (cp.reduce.async.bulk, `flush_f32`), f16 and bf16 do not.
void reduce(ReduceOp op, DataType type, std::span<std::byte> destination,
            std::span<const std::byte> source, bool flush_f32 = true);

}  // namespace ptxemu::tma
