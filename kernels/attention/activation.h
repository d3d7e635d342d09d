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

template <Activation kActivation>
constexpr bool kIsGelu = kActivation == Activation::gelu || kActivation == Activation::gelu_tanh;

// Whether activate() leaves the factor scale / 2 of gelu to the output: bfloat16 holds any product,
// float16 need not.
template <Activation kActivation, typename Element>
constexpr bool kHalfScaleLater = kIsGelu<kActivation>&& tlx::is_same<Element, tlx::bf16>;

// What activate() leaves out, to be multiplied into the output.
template <Activation kActivation, typename Element>
TLX_DEVICE float activation_factor(float scale) {
  return kHalfScaleLater<kActivation, Element> ? 0.5F * scale : 1.0F;
}

// Activation of s = product · scale, divided by activation_factor(). The number of operations an
// element decides the speed of these kernels; what depends on the scale alone is worked out once.
//   silu   s · sigmoid(s) = s/2 · (1 + tanh(s/2)): one special-function operation in place of two
//   gelu   Φ(s) ≈ ½ (1 + tanh(s p(s²))); gelu_tanh is defined like this. For bfloat16 p has two
//          coefficients, fitted for the least largest error of s Φ(s), 2.7·10⁻⁴; for float16 three,
//          2.5·10⁻⁵. Beyond |s| = 6 Φ is 0 or 1, and the latter p must not turn negative: in sixths
//          of s the multiplication itself saturates.
template <Activation kActivation, typename Element>
TLX_DEVICE float activate(float product, float scale, float leaky_slope) {
  if constexpr (kActivation == Activation::silu) {
    const float half = product * (0.5F * scale);
    return half + half * tanh_approx(half);
  } else if constexpr (kIsGelu<kActivation>) {
    constexpr bool kExact = kActivation == Activation::gelu;
    float tanh;
    if constexpr (kExact && !kHalfScaleLater<kActivation, Element>) {
      const float sixth = product * (scale * (1.0F / 6)), square = __saturatef(sixth * sixth);
      constexpr float kP0 = 6 * 0.797507540F, kP1 = 6 * 36 * 0.0370060348F,
                      kP2 = 6 * 36 * 36 * -0.000351598849F;
      tanh = tanh_approx(sixth * (kP0 + square * (kP1 + square * kP2)));
    } else {
      const float p0 = (kExact ? 0.800157083F : 0.7978845608F) * scale;
      const float p1 = (kExact ? 0.0347008895F : 0.0356774081F) * scale * scale * scale;
      tanh = tanh_approx(product * (p0 + product * product * p1));
    }
    const float half = kHalfScaleLater<kActivation, Element> ? product : product * (0.5F * scale);
    return half + half * tanh;
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
