// What this machine can do at most, measured: the floor that times are compared with.
#pragma once

#include <string>

namespace jfa::tool {

struct MachinePeak {
  int threads = 0;
  double flops = 0;      // float32 multiply-adds of all threads, counted as two operations
  double bandwidth = 0;  // bytes read from memory a second by all threads
  std::string target;    // SIMD instruction set that was used: "AVX2"
};

// Takes about half a second. `threads` 0: all cores.
MachinePeak measure_machine_peak(int threads);

// Name of the processor as the operating system reports it.
std::string processor_name();
int available_threads();

// Bytes that can be taken without swapping, within the limits of this container; infinity if
// unknown.
double available_memory();

// The best SIMD instruction set of this processor that the library has code for: "AVX2".
std::string simd_target();

}  // namespace jfa::tool
