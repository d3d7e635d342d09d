// Kernel arguments and results on ptxrun's command line.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ptxemu/device.hpp"

namespace ptxemu::tool {

/// One `--arg`: a value such as `u32:7` or `f32:0.5`, or memory:
/// `buffer:BYTES[:zero|nan|random|iota]` (random: binary32 in [-1, 1); iota: 0, 1, 2, … as
/// binary32), or `file:PATH`.
struct Argument {
  std::vector<std::byte> value;  ///< as passed to the kernel
  DevicePointer buffer = 0;
  std::uint64_t bytes = 0;
};
/// Throws Error(invalid_argument) with what is allowed.
Argument parse_argument(Device& device, const std::string& text);

/// `--print INDEX:TYPE[:COUNT]`: the first elements of a buffer argument as text.
std::string print_buffer(const Device& device, const std::vector<Argument>& arguments,
                         const std::string& request);

/// "4", "4,2" or "4,2,1".
Dim3 parse_dimensions(const std::string& text);

}  // namespace ptxemu::tool
