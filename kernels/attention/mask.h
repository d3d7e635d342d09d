// A mask as a kernel gets it: parameters that may differ by sequence, in device memory. Resolved
// for one sequence here, turned into key intervals by intervals.h. Shared by host and device.
#pragma once

#include "attention/intervals.h"

namespace jfa::kernels {

// A whole number that is the same for every sequence, or one number a sequence.
struct MaskArgument {
  long long value = 0;
  const void* per_sequence = nullptr;  // [batch], or null; wins over `value`
  long long stride = 1;                // elements
  int wide = 0;                        // int64, else int32

  JFA_HOST_DEVICE constexpr long long at(long long sequence) const {
    if (per_sequence == nullptr) return value;
    return wide != 0 ? static_cast<const long long*>(per_sequence)[sequence * stride]
                     : static_cast<const int*>(per_sequence)[sequence * stride];
  }
};

// The mask of a call; the parameters that its kind does not use are ignored.
struct MaskArguments {
  int bottom_right = 1;
  int hstu_causal = 1;
  MaskArgument left, right;
  MaskArgument contextual, targets, target_group, max_attention_length, min_full_attention;
  MaskArgument prefix, local;
  MaskArgument block;
  const int* intervals = nullptr;  // [rows of out, 2 or 4]
  long long interval_row_stride = 0;
  long long interval_stride = 0;  // between the bounds of a row
  int interval_bounds = 2;        // 2 or 4
};

// The mask of sequence `sequence`. Counts are clamped to the sequence, every number to what makes a
// difference (docs/contract.md, "Masks").
template <int kKind>
JFA_HOST_DEVICE constexpr MaskParameters mask_of_sequence(const MaskArguments& mask,
                                                          long long sequence, Index q_length,
                                                          Index k_length) {
  MaskParameters result;
  const Index most = q_length + k_length + 1;
  const auto bounded = [&](const MaskArgument& argument, Index least) {
    const long long value = argument.at(sequence);
    return static_cast<Index>(value < least ? least : value < most ? value : most);
  };
  result.kind = kKind;
  result.bottom_right = mask.bottom_right;
  if constexpr (kKind == MaskParameters::window) {
    result.left = bounded(mask.left, -1);
    result.right = bounded(mask.right, -1);
  } else if constexpr (kKind == MaskParameters::hstu) {
    result.hstu_causal = mask.hstu_causal;
    result.targets = smaller(bounded(mask.targets, 0), k_length);
    result.contextual = smaller(bounded(mask.contextual, 0), k_length - result.targets);
    result.target_group = bounded(mask.target_group, 1);
    result.max_attention_length = bounded(mask.max_attention_length, 0);
    result.min_full_attention = bounded(mask.min_full_attention, 0);
  } else if constexpr (kKind == MaskParameters::prefix_local) {
    result.prefix = bounded(mask.prefix, 0);
    result.local = bounded(mask.local, 0);
  } else if constexpr (kKind == MaskParameters::blocks) {
    result.block = bounded(mask.block, 1);
  }
  return result;
}

// Keys that row `row` of the sequence sees; `out_row` is its row in out.
template <int kKind>
JFA_HOST_DEVICE constexpr RowIntervals mask_row(const MaskArguments& mask,
                                                const MaskParameters& parameters, Index row,
                                                long long out_row, Index q_length, Index k_length) {
  if constexpr (kKind == MaskParameters::intervals) {
    const int* bounds = mask.intervals + out_row * mask.interval_row_stride;
    const long long next = mask.interval_stride;
    const bool two = mask.interval_bounds == 4;
    return normalized(bounds[0], bounds[next], two ? bounds[2 * next] : 0,
                      two ? bounds[3 * next] : 0, k_length);
  } else {
    return row_intervals(parameters, row, q_length, k_length);
  }
}

// Masks whose rows may see two intervals.
JFA_HOST_DEVICE constexpr bool has_two_intervals(int kind) {
  return kind == MaskParameters::hstu || kind == MaskParameters::prefix_local ||
         kind == MaskParameters::intervals;
}

}  // namespace jfa::kernels
