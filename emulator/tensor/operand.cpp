// Element decoding for tensor-core operands: table look-ups for 8-bit formats, bit arithmetic for
// the others.
#include "tensor/operand.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "numeric/convert.hpp"

namespace ptxemu::tensor {
namespace {

using numeric::Format;

std::array<float, 256> make_table(Format format) {
  std::array<float, 256> table{};
  for (unsigned bits = 0; bits < table.size(); ++bits) {
    table[bits] = static_cast<float>(numeric::decode(format, bits));
  }
  return table;
}

const std::array<float, 256> kE4m3 = make_table(Format::e4m3);
const std::array<float, 256> kE5m2 = make_table(Format::e5m2);

template <class Stored, class Number, class Convert>
void convert_each(std::span<const std::byte> bytes, Number* numbers, Convert convert) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(Stored); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    numbers[i] = convert(stored);
  }
}

float f16_value(std::uint16_t bits) {
  // Branch free so that loops vectorise; NaN keeps a NaN pattern, which is all that products need.
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
  const std::uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  return std::bit_cast<float>(scaled | special | ((bits & 0x8000u) << 16));
}

/// Branch free like f16_value; see numeric::f32_to_f16 for the arithmetic.
std::uint16_t f16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;
  result |= sign;
  return static_cast<std::uint16_t>(magnitude > 0x7f800000u ? 0x7fffu : result);
}

}  // namespace

unsigned element_bytes(ElementType type) {
  switch (type) {
    case ElementType::f16:
    case ElementType::bf16:
      return 2;
    case ElementType::e4m3:
    case ElementType::e5m2:
    case ElementType::s8:
    case ElementType::u8:
      return 1;
    case ElementType::f64:
      return 8;
    default:
      return 4;
  }
}

bool is_integer(ElementType type) {
  return type == ElementType::s8 || type == ElementType::u8 || type == ElementType::s32;
}

void decode_elements(ElementType type, std::span<const std::byte> bytes, float* numbers) {
  switch (type) {
    case ElementType::f16:
      return convert_each<std::uint16_t>(bytes, numbers, f16_value);
    case ElementType::bf16:
      return convert_each<std::uint16_t>(bytes, numbers, [](std::uint16_t bits) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
      });
    case ElementType::e4m3:
      return convert_each<std::uint8_t>(bytes, numbers,
                                        [](std::uint8_t bits) { return kE4m3[bits]; });
    case ElementType::e5m2:
      return convert_each<std::uint8_t>(bytes, numbers,
                                        [](std::uint8_t bits) { return kE5m2[bits]; });
    case ElementType::tf32:
      return convert_each<std::uint32_t>(bytes, numbers, [](std::uint32_t bits) {
        return std::bit_cast<float>(bits & 0xffffe000u);
      });
    case ElementType::s8:
      return convert_each<std::int8_t>(bytes, numbers,
                                       [](std::int8_t value) { return static_cast<float>(value); });
    case ElementType::u8:
      return convert_each<std::uint8_t>(
          bytes, numbers, [](std::uint8_t value) { return static_cast<float>(value); });
    default:
      return convert_each<float>(bytes, numbers, [](float value) { return value; });
  }
}

void encode_f16(std::span<const float> numbers, std::uint16_t* bits) {
  for (std::size_t i = 0; i < numbers.size(); ++i) bits[i] = f16_bits(numbers[i]);
}

}  // namespace ptxemu::tensor
