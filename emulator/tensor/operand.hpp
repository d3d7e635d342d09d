// Decoding of packed tensor-core operands to binary32, which holds every input type exactly.
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

}  // namespace ptxemu::tensor
