#include "gpu/memory.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "jfa/error.hpp"

namespace jfa::gpu {

void* given_memory(std::string_view name, void* memory, std::size_t bytes, std::size_t needed,
                   std::string_view ask) {
  if (bytes < needed) {
    throw InvalidArgument(fmt::format("{}_bytes: {}; this call needs {}: ask {}, or pass none",
                                      name, bytes, needed, ask));
  }
  if (reinterpret_cast<std::uintptr_t>(memory) % kMemoryAlignment != 0) {
    throw InvalidArgument(
        fmt::format("{}: address {} is no multiple of {} bytes; allocate it with "
                    "the device's allocator",
                    name, memory, kMemoryAlignment));
  }
  return memory;
}

}  // namespace jfa::gpu
