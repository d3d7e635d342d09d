// Adds the gradient of S of one block to the gradients of the biases.
#if defined(JFA_CPU_BIAS_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef JFA_CPU_BIAS_GRADIENT_INL_H_
#undef JFA_CPU_BIAS_GRADIENT_INL_H_
#else
#define JFA_CPU_BIAS_GRADIENT_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cpu/product-inl.h"
#include "cpu/tasks.hpp"

HWY_BEFORE_NAMESPACE();
namespace jfa::cpu::HWY_NAMESPACE {

// table[clamp(j − diagonal) + reach] += d_s[j]
HWY_INLINE void add_positions(const float* HWY_RESTRICT d_s, KeyRange range, std::int64_t diagonal,
                              std::int64_t reach, double* HWY_RESTRICT table) {
  const std::int64_t inner_begin =
      std::clamp<std::int64_t>(diagonal - reach, range.begin, range.end);
  const std::int64_t inner_end =
      std::clamp<std::int64_t>(diagonal + reach + 1, inner_begin, range.end);
  for (std::int64_t j = range.begin; j < inner_begin; ++j) table[0] += static_cast<double>(d_s[j]);
  double* HWY_RESTRICT inner = table + reach - diagonal;
  for (std::int64_t j = inner_begin; j < inner_end; ++j) inner[j] += static_cast<double>(d_s[j]);
  for (std::int64_t j = inner_end; j < range.end; ++j) {
    table[2 * reach] += static_cast<double>(d_s[j]);
  }
}

HWY_INLINE void add_bias_gradients(const BackwardContext& context,
                                   const detail::SequenceView& sequence, std::int64_t head,
                                   std::int64_t first, std::int64_t rows, std::int64_t key,
                                   const SharedSums& shared, const BackwardScratch& scratch) {
  if (!context.dense_in_keys && shared.slopes == nullptr && shared.position_table == nullptr &&
      shared.time_table == nullptr) {
    return;
  }
  const Scores scores = context.scores_of(sequence, head);
  const BackwardArgs& args = context.backward;
  const std::int64_t in_group = head % context.group;
  for (std::int64_t i = 0; i < rows; ++i) {
    const KeyRange range = scratch.groups[i / kBlockRows];
    const float* HWY_RESTRICT d_s = scratch.d_s + i * scratch.s_stride;
    const std::int64_t row = first + i;
    const std::int64_t diagonal = row + scores.shift - key;  // j − p(i) = j − diagonal
    if (context.dense_in_keys) {
      const Tensor& gradient = args.d_bias_dense;
      const std::int64_t b = gradient.shape[0] == 1 ? 0 : sequence.index;
      const std::int64_t h = gradient.shape[1] == 1 ? 0 : head;
      float* to = static_cast<float*>(gradient.data) + b * gradient.strides[0] +
                  h * gradient.strides[1] + row * gradient.strides[2] + key * gradient.strides[3];
      for (std::int64_t j = range.begin; j < range.end; ++j) to[j * gradient.strides[3]] = d_s[j];
    }
    if (shared.slopes != nullptr) {
      double sum = 0;
      for (std::int64_t j = range.begin; j < range.end; ++j) {
        sum -= static_cast<double>(std::abs(j - diagonal)) * static_cast<double>(d_s[j]);
      }
      const std::int64_t b = args.d_alibi_slopes.rank == 2 ? sequence.index : 0;
      shared.slopes[b * context.group + in_group] += sum;
    }
    if (shared.position_table != nullptr) {
      add_positions(d_s, range, diagonal, scores.position_reach,
                    shared.position_table + in_group * (2 * scores.position_reach + 1));
    }
    if (shared.time_table != nullptr) {
      double* table = shared.time_table + in_group * args.bias.time_table.shape[1];
      const std::int64_t time = scores.q_times[row * scores.q_time_stride];
      for (std::int64_t j = range.begin; j < range.end; ++j) {
        const std::int64_t other = scores.k_times[(key + j) * scores.k_time_stride];
        table[scores.buckets->bucket_of(time, other)] += static_cast<double>(d_s[j]);
      }
    }
  }
}

}  // namespace jfa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
