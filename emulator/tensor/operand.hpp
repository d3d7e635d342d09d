// Decoding of packed tensor-core operands to the arithmetic type of the products: float, or int32
// for s8 and u8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/matrix_types.hpp"

namespace ptxemu::tensor {

/// Largest number of elements in a 16-byte chunk.
inline constexpr unsigned kMaxChunkElements = 16;

bool is_integer(ElementType type);

/// Decodes `bytes` (a multiple of the element size) to `bytes.size() / element_bytes(type)`
/// numbers. tf32 drops the low 13 bits.
void decode_elements(ElementType type, std::span<const std::byte> bytes, float* numbers);
void decode_elements(ElementType type, std::span<const std::byte> bytes, std::int32_t* numbers);

}  // namespace ptxemu::tensor
