// Elementwise activations and their derivatives in float64 (docs/contract.md, "Formulas").
#pragma once

#include "jfa/attention.hpp"

namespace jfa::detail {

// `activation` is any but softmax. leaky_slope counts for leaky_relu only.
double activate(Activation activation, double leaky_slope, double s);
double activate_derivative(Activation activation, double leaky_slope, double s);

}  // namespace jfa::detail
