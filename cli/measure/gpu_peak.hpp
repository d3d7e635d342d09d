// What a GPU can do at most: the floor that times on it are compared with.
#pragma once

#include "jfa/device.hpp"
#include "measure/machine.hpp"

namespace jfa::tool {

// Rates that a Hopper GPU sustains: a matrix product of 16-bit elements, and a copy in memory.
// Scaled from an H200 by multiprocessors and by memory clock and width; an architecture without a
// GPU counts as an H200.
MachinePeak gpu_peak(const DeviceInfo& device);

}  // namespace jfa::tool
