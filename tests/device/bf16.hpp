// bfloat16 on the host, for tests that fill and read device memory.
#pragma once

#include <cstdint>
#include <cstring>

namespace jfa::test {

constexpr std::uint16_t kNan = 0x7FC0;

inline float from_bf16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

inline std::uint16_t to_bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

}  // namespace jfa::test
