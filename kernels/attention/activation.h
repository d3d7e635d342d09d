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

// What activate() leaves out, to be multiplied into the output.
template <Activation kActivation>
constexpr float kActivationFactor = kActivation == Activation::gelu ? 3.0F : 1.0F;

// Activation of s = product · scale, divided by kActivationFactor. Operations decide the speed of
// these kernels: what depends on the scale alone is worked out once for all elements.
//   silu   s · sigmoid(s) = s/2 · (1 + tanh(s/2)): one special-function operation in place of two
//   gelu   Φ(s) = ½ (1 + tanh(s · p(s²))); p, a least-squares fit, leaves an error of 2.5·10⁻⁵ in
//          s Φ(s). Beyond |s| = 6 Φ is 0 or 1 and p must not turn negative: in sixths of s, the
//          multiplication itself saturates.
template <Activation kActivation>
TLX_DEVICE float activate(float product, float scale, float leaky_slope) {
  if constexpr (kActivation == Activation::silu) {
    const float half = product * (0.5F * scale);
    return half + half * tanh_approx(half);
  } else if constexpr (kActivation == Activation::gelu) {
    const float sixth = product * (scale * (1.0F / 6));
    const float square = __saturatef(sixth * sixth);
    constexpr float kP0 = 6 * 0.797507540F, kP1 = 6 * 36 * 0.0370060348F,
                    kP2 = 6 * 36 * 36 * -0.000351598849F;
    return sixth + sixth * tanh_approx(sixth * (kP0 + square * (kP1 + square * kP2)));
  } else if constexpr (kActivation == Activation::gelu_tanh) {
    const float half = product * (0.5F * scale);
    constexpr float kP0 = 2 * 0.7978845608F, kP1 = 8 * 0.0356774081F;
    return half + half * tanh_approx(half * (kP0 + half * half * kP1));
  } else if constexpr (kActivation == Activation::relu) {
    return tlx::ptx::max(product * scale, 0);
  } else if constexpr (kActivation == Activation::relu2) {
    const float positive = tlx::ptx::max(product * scale, 0);
    return positive * positive;
  } else if constexpr (kActivation == Activation::leaky_relu) {
    const float s = product * scale;
    return s > 0 ? s : leaky_slope * s;
  } else if constexpr (kActivation == Activation::hardswish) {
    return product * scale * __saturatef(product * (scale * (1.0F / 6)) + 0.5F);
  } else {
    static_assert(kActivation == Activation::identity, "this activation has no device formula");
    return product * scale;
  }
}

}  // namespace jfa::kernels
