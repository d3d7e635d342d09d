// A plain two-pass implementation with float32 accumulation: the yardstick for the worst element.
#pragma once

#include "api/call.hpp"

namespace jfa::detail {

// Three copies of a call's arguments that differ in their float64 results.
//
// `rounded` receives what float32 arithmetic gives, with P and dS rounded to the type of q as
// matrix operands and with Σ P dP taken from the output as it is stored.
//
// `floor` receives what float32 cannot resolve in each element, however it is computed:
// 2⁻²⁴ · (sum of the absolute values of all contributions) + 3 · (standard deviation of the sum of
// the contributions' own errors: those of the scores, and of Σ P dP through the stored output).
// 0 where nothing contributes.
//
// `variance` is scratch.
template <typename Args>
struct TwoPass {
  Args rounded;
  Args floor;
  Args variance;
};

void two_pass_forward(const Call& call, const TwoPass<ForwardArgs>& results);
void two_pass_backward(const Call& call, const TwoPass<BackwardArgs>& results);

}  // namespace jfa::detail
