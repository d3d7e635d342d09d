// The parts of the module; each adds its names.
#pragma once

#include <nanobind/nanobind.h>

namespace jfa::python {

void bind_arguments(nanobind::module_& module);  // tensors, masks, biases, arguments
void bind_attention(nanobind::module_& module);  // plan, forward, backward, reference
void bind_problem(nanobind::module_& module);    // one-line problems, check

}  // namespace jfa::python
