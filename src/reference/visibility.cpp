#include "reference/visibility.hpp"

#include <algorithm>
#include <cstdlib>

#include "api/scalar.hpp"

namespace jfa::detail {
namespace {

// ⌊a / b⌋ for b > 0, also for negative a.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

bool hstu_visible(const kernels::MaskParameters& mask, std::int64_t length, std::int64_t p,
                  std::int64_t j) {
  if (p < 0 || p >= length) return false;
  const std::int64_t targets = std::min<std::int64_t>(mask.targets, length);
  const std::int64_t contextual = std::min<std::int64_t>(mask.contextual, length - targets);
  const bool has_context = contextual > 0;
  const std::int64_t last_id = has_context ? length - contextual + 1 - targets : length - targets;
  const auto id = [&](std::int64_t x) {
    return std::min(has_context ? std::max<std::int64_t>(x - contextual + 1, 0) : x, last_id);
  };

  std::int64_t distance = id(p) - id(j);
  if (mask.hstu_causal == 0) distance = std::abs(distance);

  const std::int64_t first_target = length - targets;
  const bool same_group =
      p >= j && j >= first_target &&
      (p - first_target) / mask.target_group == (j - first_target) / mask.target_group;

  const std::int64_t window = mask.max_attention_length;
  const std::int64_t full = mask.min_full_attention;
  const bool in_window = window == 0 || distance <= window || (full > 0 && id(p) >= last_id - full);
  const bool context_sees_history = has_context && id(p) == 0 && id(j) < last_id;
  return ((p == j || distance > 0 || same_group) && in_window) || context_sees_history;
}

bool in_intervals(const Tensor& intervals, std::int64_t row, std::int64_t j) {
  for (std::int64_t column = 0; column < intervals.shape[1]; column += 2) {
    const auto at = [&](std::int64_t c) {
      return integer_at(intervals, row * intervals.strides[0] + c * intervals.strides[1]);
    };
    if (at(column) <= j && j < at(column + 1)) return true;
  }
  return false;
}

}  // namespace

std::int64_t position(const SequenceView& sequence, std::int64_t i) {
  return sequence.mask.bottom_right != 0 ? i + sequence.k_length - sequence.q_length : i;
}

bool visible(const Mask& mask, const SequenceView& sequence, std::int64_t i, std::int64_t j) {
  const kernels::MaskParameters& parameters = sequence.mask;
  const std::int64_t p = position(sequence, i);
  switch (mask.kind) {
    case MaskKind::full:
      return true;
    case MaskKind::causal:
      return j <= p;
    case MaskKind::window:
      return (parameters.left < 0 || p - parameters.left <= j) &&
             (parameters.right < 0 || j <= p + parameters.right);
    case MaskKind::hstu:
      return hstu_visible(parameters, sequence.k_length, p, j);
    case MaskKind::prefix_local:
      return j <= p && (j < parameters.prefix || j > p - parameters.local);
    case MaskKind::blocks:
      return floor_divide(j, parameters.block) == floor_divide(p, parameters.block);
    case MaskKind::intervals:
      return in_intervals(mask.intervals, sequence.out_row + i, j);
  }
  return false;
}

}  // namespace jfa::detail
