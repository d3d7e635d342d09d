// Elementwise activations on scores, float32 in registers (docs/contract.md, "Math").
#pragma once

#include "tlx/ptx.h"

namespace jfa::kernels {

enum class Activation : int {
  softmax,
  silu,
  gelu,
  gelu_tanh,
  relu,
  relu2,
  leaky_relu,
  hardswish,
  identity
};

// tanh.approx.f32 — relative error 2⁻¹¹. (Floating Point: tanh)
TLX_DEVICE float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// s · sigmoid(s) = s/2 · (1 + tanh(s/2)): one special-function operation in place of two (ex2 and
// rcp).
TLX_DEVICE float silu(float s) {
  const float half = 0.5F * s;
  return half + half * tanh_approx(half);
}

template <Activation kActivation>
TLX_DEVICE float activate(float s, float leaky_slope) {
  if constexpr (kActivation == Activation::silu) {
    return silu(s);
  } else if constexpr (kActivation == Activation::gelu) {
    // Φ(s) = ½ (1 + tanh(s · p(s²))); p, a least-squares fit, leaves an error of 2.5·10⁻⁵ in s
    // Φ(s). Beyond |s| = 6 Φ is 0 or 1 and p must not turn negative.
    const float square = s * s < 36 ? s * s : 36;
    const float half = 0.5F * s;
    return half + half * tanh_approx(s * (0.797507540F +
                                          square * (0.0370060348F - 0.000351598849F * square)));
  } else if constexpr (kActivation == Activation::gelu_tanh) {
    const float half = 0.5F * s;
    return half + half * tanh_approx(s * (0.7978845608F + 0.0356774081F * s * s));
  } else if constexpr (kActivation == Activation::relu) {
    return s > 0 ? s : 0;
  } else if constexpr (kActivation == Activation::relu2) {
    const float positive = s > 0 ? s : 0;
    return positive * positive;
  } else if constexpr (kActivation == Activation::leaky_relu) {
    return s > 0 ? s : leaky_slope * s;
  } else if constexpr (kActivation == Activation::hardswish) {
    const float gate = s + 3 > 0 ? s + 3 : 0;
    return s * (gate < 6 ? gate : 6) * (1.0F / 6);
  } else {
    static_assert(kActivation == Activation::identity, "this activation has no device formula");
    return s;
  }
}

}  // namespace jfa::kernels
