// What the tasks of the backward pass share: rows of Q and dO as float32, and gradients of rows.
#if defined(JFA_CPU_BACKWARD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef JFA_CPU_BACKWARD_ROWS_INL_H_
#undef JFA_CPU_BACKWARD_ROWS_INL_H_
#else
#define JFA_CPU_BACKWARD_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "cpu/score-inl.h"
#include "cpu/tasks.hpp"

HWY_BEFORE_NAMESPACE();
namespace jfa::cpu::HWY_NAMESPACE {

using detail::SequenceView;

HWY_INLINE const SequenceView& member_of(const BackwardContext& context, std::int64_t member) {
  const std::int64_t b = context.plan.members[static_cast<std::size_t>(member)];
  return context.call.sequences[static_cast<std::size_t>(b)];
}

// delta(i) = Σ d_out · out of one row.
HWY_INLINE float row_dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                         std::int64_t width) {
  const Floats f32;
  FloatVector sum = hn::Zero(f32);
  for (std::int64_t d = 0; d < width; d += kLanes) {
    sum = hn::MulAdd(hn::LoadU(f32, a + d), hn::LoadU(f32, b + d), sum);
  }
  return hn::GetLane(hn::SumOfLanes(f32, sum));
}

// Rows of Q and dO to the rows of the scratch from `to` on; for softmax also delta and lse.
HWY_NOINLINE inline void load_queries(const BackwardContext& context, const SequenceView& sequence,
                                      std::int64_t head, std::int64_t first, std::int64_t rows,
                                      std::int64_t to, const BackwardScratch& scratch) {
  const BackwardArgs& args = context.backward;
  const Layout layout = args.q_sequences.layout;
  const Layout out_layout = detail::out_layout(layout);
  const Rows q = rows_in_head(args.q, layout, sequence.index, sequence.q_first, head);
  const Rows d_out = rows_in_head(args.d_out, out_layout, sequence.index, sequence.q_first, head);
  const std::int64_t padded = round_up(d_out.width, kLanes);
  load_rows(q, first, rows, round_up(q.width, kLanes), scratch.q + to * scratch.q_stride,
            scratch.q_stride);
  load_rows(d_out, first, rows, padded, scratch.d_out + to * scratch.v_stride, scratch.v_stride);
  const bool softmax = args.activation == Activation::softmax;
  for (std::int64_t i = 0; i < rows; ++i) {
    float* gradient = scratch.d_out + (to + i) * scratch.v_stride;
    if (softmax) {
      const Rows out = rows_in_head(args.out, out_layout, sequence.index, sequence.q_first, head);
      load_rows(out, first + i, 1, padded, scratch.row, scratch.v_stride);
      scratch.delta[to + i] = row_dot(scratch.row, gradient, out.width);
      const float* lse = static_cast<const float*>(args.lse.data) + head * args.lse.strides[0];
      const std::int64_t row = sequence.out_row + first + i;
      const double exact = 1.4426950408889634 * static_cast<double>(lse[row * args.lse.strides[1]]);
      float& rounded = scratch.lse[to + i];
      rounded = static_cast<float>(exact);
      scratch.lse_rest[to + i] = static_cast<float>(exact - static_cast<double>(rounded));
    }
    const auto scale = static_cast<float>(context.out_scale_of(sequence, first + i));
    if (scale == 1) continue;
    for (std::int64_t d = 0; d < padded; ++d) gradient[d] *= scale;
  }
}

template <Activation kActivation>
HWY_INLINE void activation_gradient_row(const Scores& scores, KeyRange range, float* HWY_RESTRICT p,
                                        float* HWY_RESTRICT d_s) {
  const Floats f32;
  const FloatVector scale = hn::Set(f32, scores.late_scale);
  for (std::int64_t j = range.begin; j < range.end; j += kLanes) {
    FloatVector derivative = hn::Zero(f32);
    const FloatVector s = hn::Mul(hn::LoadU(f32, p + j), scale);
    hn::StoreU(activation_of<kActivation, true>(s, scores.leaky_slope, derivative), f32, p + j);
    hn::StoreU(hn::Mul(derivative, hn::LoadU(f32, d_s + j)), f32, d_s + j);
  }
}

HWY_INLINE void zero_rows(float* rows, std::int64_t count, std::int64_t width,
                          std::int64_t stride) {
  for (std::int64_t i = 0; i < count; ++i) std::fill_n(rows + i * stride, width, 0.0F);
}

HWY_INLINE Rows query_gradient(const BackwardContext& context, const SequenceView& sequence,
                               std::int64_t head) {
  return rows_in_head(context.backward.d_q, context.args.q_sequences.layout, sequence.index,
                      sequence.q_first, head);
}

HWY_INLINE void add_rows(const float* HWY_RESTRICT from, std::int64_t rows, std::int64_t width,
                         std::int64_t stride, float factor, float* HWY_RESTRICT to) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t d = 0; d < width; ++d) to[i * stride + d] += factor * from[i * stride + d];
  }
}

}  // namespace jfa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
