#include "reference/activation.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace jfa::detail {
namespace {

double logistic(double s) {
  return 1 / (1 + std::exp(-s));
}

// Φ and φ of the standard normal distribution.
double normal_distribution(double s) {
  return 0.5 * std::erfc(-s / std::numbers::sqrt2);
}
double normal_density(double s) {
  return std::exp(-0.5 * s * s) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}

// The argument of tanh in gelu_tanh, and its derivative.
const double kTanhScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // √(2/π)
double tanh_argument(double s) {
  return kTanhScale * (s + 0.044715 * s * s * s);
}
double tanh_argument_derivative(double s) {
  return kTanhScale * (1 + 3 * 0.044715 * s * s);
}

}  // namespace

double activate(Activation activation, double leaky_slope, double s) {
  switch (activation) {
    case Activation::silu:
      return s * logistic(s);
    case Activation::gelu:
      return s * normal_distribution(s);
    case Activation::gelu_tanh:
      return s * logistic(2 * tanh_argument(s));  // ½ (1 + tanh u) = σ(2u), without cancellation
    case Activation::relu:
      return std::max(s, 0.0);
    case Activation::relu2:
      return std::max(s, 0.0) * std::max(s, 0.0);
    case Activation::leaky_relu:
      return s > 0 ? s : leaky_slope * s;
    case Activation::hardswish:
      return s * std::clamp(s + 3, 0.0, 6.0) / 6;
    case Activation::identity:
    case Activation::softmax:
      break;
  }
  return s;
}

double activate_derivative(Activation activation, double leaky_slope, double s) {
  switch (activation) {
    case Activation::silu:
      return logistic(s) * (1 + s * (1 - logistic(s)));
    case Activation::gelu:
      return normal_distribution(s) + s * normal_density(s);
    case Activation::gelu_tanh: {
      const double u = tanh_argument(s);
      return logistic(2 * u) +
             2 * s * logistic(2 * u) * logistic(-2 * u) * tanh_argument_derivative(s);
    }
    case Activation::relu:
      return s > 0 ? 1 : 0;
    case Activation::relu2:
      return 2 * std::max(s, 0.0);
    case Activation::leaky_relu:
      return s > 0 ? 1 : leaky_slope;
    case Activation::hardswish:
      if (s <= -3) return 0;
      return s >= 3 ? 1 : (2 * s + 3) / 6;
    case Activation::identity:
    case Activation::softmax:
      break;
  }
  return 1;
}

}  // namespace jfa::detail
