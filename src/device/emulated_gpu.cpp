#include "device/emulated_gpu.hpp"

#include <array>
#include <cstdlib>
#include <cstring>

namespace jfa::device {
namespace {

// Numbers of the compute capability table of the CUDA programming guide.
constexpr std::array kArchitectures{
    Architecture{.name = "sm_90a",
                 .like = "PTX emulator (Hopper)",
                 .compute_major = 9,
                 .compute_minor = 0,
                 .shared_bytes_per_block = 227 * 1024,
                 .shared_bytes_per_multiprocessor = 228 * 1024,
                 .l2_bytes = 50 << 20},
};

void* pointer(ptxemu::DevicePointer address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace

ptxemu::DevicePointer EmulatedGpu::allocate(std::size_t bytes) {
  const ptxemu::DevicePointer memory = device_.allocate(bytes);
  allocations_[memory] = bytes;
  return memory;
}

void EmulatedGpu::free(ptxemu::DevicePointer memory) {
  device_.free(memory);
  allocations_.erase(memory);
}

bool EmulatedGpu::owns(ptxemu::DevicePointer address) const {
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) {
    return false;
  }
  const auto& [start, bytes] = *std::prev(after);
  return address - start < bytes;
}

void EmulatedGpu::copy(ptxemu::DevicePointer to, ptxemu::DevicePointer from, std::size_t bytes) {
  if (owns(to) && owns(from)) {
    device_.copy(to, from, bytes);
  } else if (owns(to)) {
    device_.copy_to_device(to, pointer(from), bytes);
  } else if (owns(from)) {
    device_.copy_to_host(pointer(to), from, bytes);
  } else {
    std::memmove(pointer(to), pointer(from), bytes);
  }
}

std::vector<std::unique_ptr<EmulatedGpu>>& emulated_gpus() {
  static std::vector<std::unique_ptr<EmulatedGpu>> gpus = [] {
    const char* text = std::getenv("JFA_EMULATOR");
    const ptxemu::DeviceOptions options = parse_emulator_options(text != nullptr ? text : "");
    std::vector<std::unique_ptr<EmulatedGpu>> made;
    for (const Architecture& architecture : kArchitectures) {
      made.push_back(std::make_unique<EmulatedGpu>(architecture, options));
    }
    return made;
  }();
  return gpus;
}

}  // namespace jfa::device
