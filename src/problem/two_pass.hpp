// A plain two-pass implementation with float32 accumulation: the yardstick for the worst element.
#pragma once

#include "api/call.hpp"

namespace jfa::detail {

// `rounded` receives what float32 arithmetic, with P and dS rounded to the type of q as matrix
// operands, gives for the results; `magnitude` the sum of the absolute values of everything that is
// added up in an element (lse: of the largest score). Both have float64 results, otherwise the same
// arguments.
void two_pass_forward(const Call& call, const ForwardArgs& rounded, const ForwardArgs& magnitude);
void two_pass_backward(const Call& call, const BackwardArgs& rounded,
                       const BackwardArgs& magnitude);

}  // namespace jfa::detail
