// From raw products Q·K to probabilities, row by row: bias, masks, softmax, elementwise activations
// and their derivatives.
#if defined(JFA_CPU_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef JFA_CPU_SCORE_INL_H_
#undef JFA_CPU_SCORE_INL_H_
#else
#define JFA_CPU_SCORE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace jfa::cpu::HWY_NAMESPACE {

// Narrows the rows' intervals to the keys [begin, begin + keys) and finds what each group of
// kBlockRows rows sees, rounded outwards to whole panels.
HWY_INLINE kernels::Visibility mask_block(const kernels::RowIntervals* intervals, std::int64_t rows,
                                          std::int64_t begin, std::int64_t keys, RowRange* ranges,
                                          KeyRange* groups) {
  bool any = false;
  bool all = true;
  for (std::int64_t first = 0; first < rows; first += kBlockRows) {
    const std::int64_t end = std::min<std::int64_t>(rows, first + kBlockRows);
    int lo = static_cast<int>(keys);
    int hi = 0;
    for (std::int64_t i = first; i < end; ++i) {
      const auto part = kernels::clipped(intervals[i], begin, begin + keys);
      RowRange& range = ranges[i];
      range.first = {static_cast<int>(part.lo0 - begin), static_cast<int>(part.hi0 - begin)};
      range.second = {static_cast<int>(part.lo1 - begin), static_cast<int>(part.hi1 - begin)};
      all = all && kernels::visible_keys(part) == keys;
      if (range.first.begin == range.first.end) continue;
      lo = std::min(lo, range.first.begin);
      hi = std::max({hi, range.first.end, range.second.end});
    }
    if (hi <= lo) {
      groups[first / kBlockRows] = {0, 0};
      continue;
    }
    any = true;
    constexpr int panel = static_cast<int>(kPanel);
    groups[first / kBlockRows] = {
        lo / panel * panel, std::min(static_cast<int>(keys), (hi + panel - 1) / panel * panel)};
  }
  if (!any) return kernels::Visibility::skipped;
  return all ? kernels::Visibility::full : kernels::Visibility::partial;
}

// Everything visible.
HWY_INLINE void full_block(std::int64_t rows, std::int64_t keys, RowRange* ranges,
                           KeyRange* groups) {
  const int end = static_cast<int>(keys);
  for (std::int64_t i = 0; i < rows; ++i) ranges[i] = {{0, end}, {end, end}};
  for (std::int64_t g = 0; g * kBlockRows < rows; ++g) groups[g] = {0, end};
}

// S = Q·Kᵀ for the panels that each group of rows sees.
HWY_INLINE void score_products(std::int64_t rows, std::int64_t keys, std::int64_t depth,
                               const float* HWY_RESTRICT left, std::int64_t left_stride,
                               const float* HWY_RESTRICT panels, std::int64_t panel_size,
                               const KeyRange* groups, float* HWY_RESTRICT s, std::int64_t s_stride,
                               RowPrefetcher& prefetcher) {
  for (std::int64_t j = 0; j < keys; j += kPanel, panels += panel_size) {
    const std::int64_t vectors = keys - j > kLanes ? 2 : 1;
    for (std::int64_t i = 0; i < rows; i += kBlockRows) {
      const KeyRange range = groups[i / kBlockRows];
      if (j < range.begin || j >= range.end) continue;
      prefetcher.step();
      product_rows<Update::assign, Order::rows>(
          std::min<std::int64_t>(kBlockRows, rows - i), vectors, depth, left + i * left_stride,
          left_stride, panels, kPanel, s + i * s_stride + j, s_stride, nullptr);
    }
  }
}

// How many register blocks score_products computes at most.
HWY_INLINE std::int64_t register_blocks(std::int64_t rows, std::int64_t keys) {
  return ((rows + kBlockRows - 1) / kBlockRows) * ((keys + kPanel - 1) / kPanel);
}

// Writes `value` to row[begin … end) outside the visible ranges.
HWY_INLINE void fill_hidden(float* row, std::int64_t begin, std::int64_t end, const RowRange& range,
                            float value) {
  if (range.first.begin == range.first.end) {
    std::fill(row + begin, row + end, value);
    return;
  }
  std::fill(row + begin, row + range.first.begin, value);
  if (range.second.begin == range.second.end) {
    std::fill(row + range.first.end, row + end, value);
    return;
  }
  std::fill(row + range.first.end, row + range.second.begin, value);
  std::fill(row + range.second.end, row + end, value);
}

// row[j] = scale · row[j] + bias(i, key + j) for j in [begin, end), key the first key of
// the block.
HWY_NOINLINE inline void adjust_row(const Scores& scores, std::int64_t i, std::int64_t key,
                                    std::int64_t begin, std::int64_t end, float* HWY_RESTRICT row) {
  const float scale = scores.scale;
  for (std::int64_t j = begin; j < end; ++j) row[j] *= scale;
  if (scores.dense.data != nullptr) {
    if (scores.dense.dtype == DType::float32 && scores.dense.column_stride == 1) {
      const float* HWY_RESTRICT bias =
          static_cast<const float*>(scores.dense.data) + i * scores.dense.row_stride + key;
      for (std::int64_t j = begin; j < end; ++j) row[j] += bias[j];
    } else {
      for (std::int64_t j = begin; j < end; ++j) row[j] += scores.dense.at(i, key + j);
    }
  }
  const std::int64_t diagonal = i + scores.shift - key;  // j − p(i) = j − diagonal
  if (scores.has_slope) {
    const float slope = -scores.slope;
    for (std::int64_t j = begin; j < end; ++j) {
      row[j] += slope * static_cast<float>(std::abs(j - diagonal));
    }
  }
  if (scores.position_table != nullptr) {
    const std::int64_t reach = scores.position_reach;
    for (std::int64_t j = begin; j < end; ++j) {
      const std::int64_t distance = std::clamp(j - diagonal, -reach, reach);
      row[j] += scores.position_table[(distance + reach) * scores.position_stride];
    }
  }
  if (scores.time_table != nullptr) {
    const std::int64_t time = scores.q_times[i * scores.q_time_stride];
    for (std::int64_t j = begin; j < end; ++j) {
      const std::int64_t other = scores.k_times[(key + j) * scores.k_time_stride];
      row[j] += scores.time_table[scores.buckets->bucket_of(time, other) * scores.time_stride];
    }
  }
}

HWY_INLINE FloatVector sigmoid_of(FloatVector s) {
  const Floats f32;
  const FloatVector e =
      exp2_of(hn::Min(hn::Set(f32, 126.0F), hn::Mul(s, hn::Set(f32, -1.4426950408889634F))));
  return hn::Div(hn::Set(f32, 1.0F), hn::Add(hn::Set(f32, 1.0F), e));
}

// Φ(s) by the rational approximation of erfc with 1.2e-7 relative error everywhere (W. H. Press et
// al., Numerical Recipes in C, 2nd ed., §6.2, erfcc), so that far negative scores keep their
// digits.
HWY_INLINE FloatVector normal_cdf_of(FloatVector s) {
  const Floats f32;
  const FloatVector x = hn::Mul(hn::Abs(s), hn::Set(f32, 0.7071067811865476F));
  const FloatVector t =
      hn::Div(hn::Set(f32, 1.0F), hn::MulAdd(x, hn::Set(f32, 0.5F), hn::Set(f32, 1.0F)));
  FloatVector p = hn::Set(f32, 0.17087277F);
  p = hn::MulAdd(p, t, hn::Set(f32, -0.82215223F));
  p = hn::MulAdd(p, t, hn::Set(f32, 1.48851587F));
  p = hn::MulAdd(p, t, hn::Set(f32, -1.13520398F));
  p = hn::MulAdd(p, t, hn::Set(f32, 0.27886807F));
  p = hn::MulAdd(p, t, hn::Set(f32, -0.18628806F));
  p = hn::MulAdd(p, t, hn::Set(f32, 0.09678418F));
  p = hn::MulAdd(p, t, hn::Set(f32, 0.37409196F));
  p = hn::MulAdd(p, t, hn::Set(f32, 1.00002368F));
  p = hn::MulAdd(p, t, hn::Set(f32, -1.26551223F));
  const FloatVector exponent = hn::NegMulAdd(x, x, p);
  const FloatVector tail = hn::Mul(hn::Mul(t, hn::Set(f32, 0.5F)),
                                   exp2_of(hn::Mul(exponent, hn::Set(f32, 1.4426950408889634F))));
  return hn::IfThenElse(hn::Lt(s, hn::Zero(f32)), tail, hn::Sub(hn::Set(f32, 1.0F), tail));
}

// tanh-GELU is s·σ(2u).
HWY_INLINE FloatVector gelu_tanh_gate(FloatVector s) {
  const Floats f32;
  const FloatVector cubic = hn::MulAdd(hn::Mul(s, s), hn::Set(f32, 0.044715F), hn::Set(f32, 1.0F));
  return sigmoid_of(hn::Mul(hn::Mul(s, cubic), hn::Set(f32, 1.5957691216057308F)));
}

// act(s) and, where asked for, act′(s).
template <Activation kActivation, bool kDerivative>
HWY_INLINE FloatVector activation_of(FloatVector s, float leaky_slope, FloatVector& derivative) {
  const Floats f32;
  const FloatVector zero = hn::Zero(f32);
  const FloatVector one = hn::Set(f32, 1.0F);
  (void)leaky_slope;
  if constexpr (kActivation == Activation::silu) {
    const FloatVector gate = sigmoid_of(s);
    const FloatVector value = hn::Mul(s, gate);
    if (kDerivative) derivative = hn::MulAdd(value, hn::Sub(one, gate), gate);
    return value;
  } else if constexpr (kActivation == Activation::gelu) {
    const FloatVector gate = normal_cdf_of(s);
    if (kDerivative) {
      const FloatVector density =
          hn::Mul(hn::Set(f32, 0.3989422804014327F),
                  exp2_of(hn::Mul(hn::Mul(s, s), hn::Set(f32, -0.7213475204444817F))));
      derivative = hn::MulAdd(s, density, gate);
    }
    return hn::Mul(s, gate);
  } else if constexpr (kActivation == Activation::gelu_tanh) {
    const FloatVector gate = gelu_tanh_gate(s);
    const FloatVector value = hn::Mul(s, gate);
    if (kDerivative) {
      const FloatVector slope = hn::MulAdd(hn::Mul(s, s), hn::Set(f32, 0.2140644488178047F),
                                           hn::Set(f32, 1.5957691216057308F));
      derivative = hn::MulAdd(hn::Mul(value, hn::Sub(one, gate)), slope, gate);
    }
    return value;
  } else if constexpr (kActivation == Activation::relu) {
    if (kDerivative) derivative = hn::IfThenElseZero(hn::Gt(s, zero), one);
    return hn::Max(zero, s);
  } else if constexpr (kActivation == Activation::relu2) {
    const FloatVector positive = hn::Max(zero, s);
    if (kDerivative) derivative = hn::Add(positive, positive);
    return hn::Mul(positive, positive);
  } else if constexpr (kActivation == Activation::leaky_relu) {
    const FloatVector slope = hn::IfThenElse(hn::Gt(s, zero), one, hn::Set(f32, leaky_slope));
    if (kDerivative) derivative = slope;
    return hn::Mul(s, slope);
  } else if constexpr (kActivation == Activation::hardswish) {
    const FloatVector three = hn::Set(f32, 3.0F);
    const FloatVector sixth = hn::Set(f32, 1.0F / 6);
    const FloatVector gate = hn::Min(hn::Max(hn::Add(s, three), zero), hn::Set(f32, 6.0F));
    if (kDerivative) {
      const FloatVector middle = hn::Mul(hn::MulAdd(s, hn::Set(f32, 2.0F), three), sixth);
      derivative = hn::IfThenElse(hn::Gt(s, three), one,
                                  hn::IfThenZeroElse(hn::Lt(s, hn::Neg(three)), middle));
    }
    return hn::Mul(hn::Mul(s, gate), sixth);
  } else {
    if (kDerivative) derivative = one;
    return s;
  }
}

// Calls function(std::integral_constant<Activation, …>) for an elementwise activation.
template <typename Function>
HWY_INLINE void with_activation(Activation activation, const Function& function) {
  switch (activation) {
    case Activation::silu:
      return function(std::integral_constant<Activation, Activation::silu>());
    case Activation::gelu:
      return function(std::integral_constant<Activation, Activation::gelu>());
    case Activation::gelu_tanh:
      return function(std::integral_constant<Activation, Activation::gelu_tanh>());
    case Activation::relu:
      return function(std::integral_constant<Activation, Activation::relu>());
    case Activation::relu2:
      return function(std::integral_constant<Activation, Activation::relu2>());
    case Activation::leaky_relu:
      return function(std::integral_constant<Activation, Activation::leaky_relu>());
    case Activation::hardswish:
      return function(std::integral_constant<Activation, Activation::hardswish>());
    default:
      return function(std::integral_constant<Activation, Activation::identity>());
  }
}

// The keys of a block that a row works on, in whole vectors.
HWY_INLINE KeyRange whole_vectors(KeyRange group) {
  return {group.begin, static_cast<int>(round_up(group.end, kLanes))};
}

// row = act(late_scale · row) of an elementwise activation, in whole vectors.
HWY_INLINE void activate_row(const Scores& scores, KeyRange range, float* HWY_RESTRICT row) {
  with_activation(scores.activation, [&](auto activation) HWY_ATTR {
    const Floats f32;
    const FloatVector scale = hn::Set(f32, scores.late_scale);
    FloatVector unused = hn::Zero(f32);
    for (std::int64_t j = range.begin; j < range.end; j += kLanes) {
      const FloatVector s = hn::Mul(hn::LoadU(f32, row + j), scale);
      hn::StoreU(activation_of<activation(), false>(s, scores.leaky_slope, unused), f32, row + j);
    }
  });
}

// One row of online softmax: row becomes P with the new maximum; `maximum` and `sum` are updated
// and `factor` is what the row's older sums must be multiplied with. Scores are late_scale · row.
HWY_INLINE void softmax_row(float late_scale, KeyRange range, float* HWY_RESTRICT row,
                            float& maximum, float& sum, float& factor) {
  const Floats f32;
  FloatVector top = hn::Set(f32, -std::numeric_limits<float>::infinity());
  for (std::int64_t j = range.begin; j < range.end; j += kLanes) {
    top = hn::Max(top, hn::LoadU(f32, row + j));
  }
  const float block_maximum = hn::GetLane(hn::MaxOfLanes(f32, top)) * late_scale;
  if (block_maximum == -std::numeric_limits<float>::infinity()) {  // a bias of −∞ hides every key
    std::fill(row + range.begin, row + range.end, 0.0F);
    factor = 1;
    return;
  }
  const float new_maximum = std::max(maximum, block_maximum);
  // exp2_of(0) is 1 + 2⁻²³: over thousands of blocks that would grow.
  factor = new_maximum == maximum ? 1 : hn::GetLane(exp2_of(hn::Set(f32, maximum - new_maximum)));
  maximum = new_maximum;
  const FloatVector scale = hn::Set(f32, late_scale);
  const FloatVector subtract = hn::Set(f32, new_maximum);
  FloatVector total = hn::Zero(f32);
  for (std::int64_t j = range.begin; j < range.end; j += kLanes) {
    const FloatVector p = exp2_of(hn::MulSub(hn::LoadU(f32, row + j), scale, subtract));
    hn::StoreU(p, f32, row + j);
    total = hn::Add(total, p);
  }
  sum = sum * factor + hn::GetLane(hn::SumOfLanes(f32, total));
}

}  // namespace jfa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
