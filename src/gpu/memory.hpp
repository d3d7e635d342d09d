// Device memory of the caller, and how parts lie in it.
#pragma once

#include <cstddef>
#include <string_view>

namespace jfa::gpu {

constexpr std::size_t kMemoryAlignment = 256;  // of the caller's memory and of its parts

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

// Checks memory that Execution::`name` gives and returns it. `ask`: what tells the size. Throws
// InvalidArgument.
void* given_memory(std::string_view name, void* memory, std::size_t bytes, std::size_t needed,
                   std::string_view ask);

}  // namespace jfa::gpu
