// Decoding of packed tensor-core operands to binary32, which holds every input type exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/matrix_types.hpp"

namespace ptxemu::tensor {

bool is_integer(ElementType type);

/// Decodes `bytes` (a multiple of the element size) to `bytes.size() / element_bytes(type)`
/// numbers. tf32 drops the low 13 bits.
void decode_elements(ElementType type, std::span<const std::byte> bytes, float* numbers);

/// Rounds to f16 (nearest even, NaN becomes 0x7fff).
void encode_f16(std::span<const float> numbers, std::uint16_t* bits);

}  // namespace ptxemu::tensor
