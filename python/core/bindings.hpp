// The parts of the module; each adds its names.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace jfa::python {

// An address is what Python can hand over.
inline void* pointer(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

void bind_arguments(nanobind::module_& module);  // tensors, masks, biases, arguments
void bind_attention(nanobind::module_& module);  // plan, forward, backward, reference
void bind_problem(nanobind::module_& module);    // one-line problems, check

// How a call runs on the threads of the process's OpenMP runtime; null where there is none.
using RunOnThreads = void (*)(int threads, void (*body)(void* state), void* state);
RunOnThreads openmp_threads();

}  // namespace jfa::python
