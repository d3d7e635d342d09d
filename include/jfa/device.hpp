// Where a call runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

// What a device has. Sizes in bytes; "a block" is a CUDA thread block.
struct DeviceInfo {
  Device device;
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // of the code it runs: "sm_90a"
  std::string driver;        // "CUDA driver 13.0"
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  int shared_bytes_per_block = 0;           // static and dynamic together
  int shared_bytes_per_multiprocessor = 0;  // a block also takes 1 KiB of the system's
  int registers_per_multiprocessor = 0;
  int threads_per_multiprocessor = 0;
  double core_clock_mhz = 0;           // highest; 0: unknown
  double memory_bytes_per_second = 0;  // of the memory's clock and width; 0: unknown
};

// Throws Unsupported for cpu, DeviceError when the driver, the GPU or the emulator is missing; the
// message says which and what to do.
DeviceInfo device_info(const Device& device);

// Every device of this machine and build but the CPU: GPUs first, then PTX machines.
std::vector<DeviceInfo> list_devices();

// One line for people: "CUDA driver 13.0, 1 GPU", or why there is none.
std::string cuda_status();

}  // namespace jfa
