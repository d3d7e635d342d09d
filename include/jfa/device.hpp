// Where a call runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace jfa {

enum class DeviceKind : std::uint8_t { cpu, cuda, emulated };

// cpu, cuda:N, or a PTX machine: emulated:sm_90a.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;             // cuda: ordinal of the GPU
  std::string architecture;  // emulated: "sm_90a"

  bool operator==(const Device&) const = default;
};

// Parses "cpu", "cuda", "cuda:1", "emulated:sm_90a". Throws InvalidArgument with the list of what
// is allowed.
Device parse_device(std::string_view text);
std::string to_string(const Device& device);

}  // namespace jfa
