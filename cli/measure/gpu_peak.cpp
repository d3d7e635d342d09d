#include "measure/gpu_peak.hpp"

namespace jfa::tool {
namespace {

// One H200 (132 multiprocessors, 4.8 TB/s by clock and width): cuBLAS at 8192³ in bfloat16, and a
// copy from memory to memory that counts both ways.
constexpr double kFlops = 790e12;
constexpr double kMultiprocessors = 132;
constexpr double kBandwidth = 4.3e12;
constexpr double kNominalBandwidth = 4.8e12;

}  // namespace

MachinePeak gpu_peak(const DeviceInfo& device) {
  MachinePeak peak;
  peak.target = device.architecture;
  const bool real = device.device.kind == DeviceKind::cuda;
  peak.flops = real ? kFlops * device.multiprocessors / kMultiprocessors : kFlops;
  peak.bandwidth = real && device.memory_bytes_per_second > 0
                       ? kBandwidth * device.memory_bytes_per_second / kNominalBandwidth
                       : kBandwidth;
  return peak;
}

}  // namespace jfa::tool
