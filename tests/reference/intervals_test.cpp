// The key intervals that engines use against the visibility predicate of the reference, for all
// small sequences and mask parameters.
#include "attention/intervals.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "api/call.hpp"
#include "api/resolve.hpp"
#include "reference/visibility.hpp"

namespace jfa::detail {
namespace {

constexpr std::int64_t kLongest = 8;

// Runs the parameters through validation, which clamps them, as a call would.
SequenceView resolved(const Mask& mask, std::int64_t q_length, std::int64_t k_length) {
  Call call;
  call.batch = 1;
  call.out_rows = q_length;
  SequenceView sequence;
  sequence.q_length = q_length;
  sequence.k_length = k_length;
  call.sequences = {sequence};
  resolve_mask(mask, call);
  return call.sequences[0];
}

kernels::RowIntervals intervals_of(const Mask& mask, const SequenceView& sequence, std::int64_t i) {
  if (mask.kind != MaskKind::intervals) {
    return kernels::row_intervals(sequence.mask, i, sequence.q_length, sequence.k_length);
  }
  const auto* bounds =
      static_cast<const std::int32_t*>(mask.intervals.data) + i * mask.intervals.strides[0];
  const bool two = mask.intervals.shape[1] == 4;
  return kernels::normalized(bounds[0], bounds[1], two ? bounds[2] : 0, two ? bounds[3] : 0,
                             sequence.k_length);
}

// Disjoint, ascending, inside the sequence, and exactly the visible keys.
void expect_same(const Mask& mask, std::int64_t q_length, std::int64_t k_length,
                 const std::string& what) {
  const SequenceView sequence = resolved(mask, q_length, k_length);
  for (std::int64_t i = 0; i < q_length; ++i) {
    const kernels::RowIntervals row = intervals_of(mask, sequence, i);
    ASSERT_TRUE(0 <= row.lo0 && row.lo0 <= row.hi0 && row.hi0 <= row.lo1 && row.lo1 <= row.hi1 &&
                row.hi1 <= k_length)
        << what << " Lq=" << q_length << " Lk=" << k_length << " row " << i << ": [" << row.lo0
        << ", " << row.hi0 << ") [" << row.lo1 << ", " << row.hi1 << ")";
    for (std::int64_t j = 0; j < k_length; ++j) {
      const bool inside = (row.lo0 <= j && j < row.hi0) || (row.lo1 <= j && j < row.hi1);
      ASSERT_EQ(inside, visible(mask, sequence, i, j))
          << what << " Lq=" << q_length << " Lk=" << k_length << " row " << i << " key " << j;
    }
  }
}

template <typename Visit>
void for_lengths_and_alignments(Mask mask, Visit visit) {
  for (const Alignment alignment : {Alignment::bottom_right, Alignment::top_left}) {
    mask.alignment = alignment;
    for (std::int64_t q_length = 0; q_length <= kLongest; ++q_length) {
      for (std::int64_t k_length = 0; k_length <= kLongest; ++k_length) {
        visit(mask, q_length, k_length);
      }
    }
  }
}

void check(const Mask& mask, const std::string& what) {
  for_lengths_and_alignments(mask, [&](const Mask& m, std::int64_t q, std::int64_t k) {
    expect_same(m, q, k, what + (m.alignment == Alignment::top_left ? " top_left" : ""));
  });
}

// Bounds around everything that can happen in sequences up to kLongest, and an absurd one.
std::vector<std::int64_t> numbers(std::int64_t from) {
  std::vector<std::int64_t> result;
  for (std::int64_t n = from; n <= kLongest + 2; ++n) result.push_back(n);
  result.push_back(INT64_MAX);
  return result;
}

TEST(Intervals, FullAndCausal) {
  Mask mask;
  check(mask, "full");
  mask.kind = MaskKind::causal;
  check(mask, "causal");
}

TEST(Intervals, Window) {
  for (const std::int64_t left : numbers(-1)) {
    for (const std::int64_t right : numbers(-1)) {
      Mask mask;
      mask.kind = MaskKind::window;
      mask.left.value = left;
      mask.right.value = right;
      check(mask, "window " + std::to_string(left) + " " + std::to_string(right));
    }
  }
}

TEST(Intervals, PrefixLocal) {
  for (const std::int64_t prefix : numbers(0)) {
    for (const std::int64_t local : numbers(0)) {
      Mask mask;
      mask.kind = MaskKind::prefix_local;
      mask.prefix.value = prefix;
      mask.local.value = local;
      check(mask, "prefix_local " + std::to_string(prefix) + " " + std::to_string(local));
    }
  }
}

TEST(Intervals, Blocks) {
  for (const std::int64_t block : numbers(1)) {
    Mask mask;
    mask.kind = MaskKind::blocks;
    mask.block.value = block;
    check(mask, "blocks " + std::to_string(block));
  }
}

TEST(Intervals, Hstu) {
  const std::vector<std::int64_t> counts = {0, 1, 2, 3, 5, 8, 20};
  for (const bool causal : {true, false}) {
    for (const std::int64_t contextual : counts) {
      for (const std::int64_t targets : counts) {
        for (const std::int64_t group : {1, 2, 3}) {
          for (const std::int64_t window : {0, 1, 2, 4, 9}) {
            for (const std::int64_t full : {0, 1, 3, 9}) {
              Mask mask;
              mask.kind = MaskKind::hstu;
              mask.hstu_causal = causal;
              mask.contextual.value = contextual;
              mask.targets.value = targets;
              mask.target_group.value = group;
              mask.max_attention_length.value = window;
              mask.min_full_attention.value = full;
              check(mask, "hstu causal=" + std::to_string(causal) +
                              " C=" + std::to_string(contextual) + " t=" + std::to_string(targets) +
                              " g=" + std::to_string(group) + " W=" + std::to_string(window) +
                              " F=" + std::to_string(full));
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(Intervals, Explicit) {
  // Every pair of bounds in one row each; the second interval overlaps, touches or stands apart.
  for (std::int64_t k_length = 0; k_length <= 5; ++k_length) {
    std::vector<std::int32_t> bounds;
    for (std::int32_t lo = -2; lo <= 7; ++lo) {
      for (std::int32_t hi = -2; hi <= 7; ++hi) {
        for (std::int32_t lo2 = -1; lo2 <= 6; ++lo2) {
          for (const std::int32_t hi2 : {0, 2, 5, 9})
            bounds.insert(bounds.end(), {lo, hi, lo2, hi2});
        }
      }
    }
    const auto rows = static_cast<std::int64_t>(bounds.size() / 4);
    Mask mask;
    mask.kind = MaskKind::intervals;
    mask.intervals = contiguous(bounds.data(), DType::int32, {rows, 4});
    expect_same(mask, rows, k_length, "two intervals");
    mask.intervals = contiguous(bounds.data(), DType::int32, {2 * rows, 2});
    expect_same(mask, 2 * rows, k_length, "one interval");
  }
}

// The definition in generative-recommenders (_get_valid_attn_mask), for Lq = Lk and groups of one:
// a second opinion, on counts that fit the sequence.
bool generative_recommenders(std::int64_t length, std::int64_t i, std::int64_t j, bool causal,
                             std::int64_t contextual, std::int64_t targets, std::int64_t window,
                             std::int64_t full) {
  std::int64_t most = length - targets;
  std::int64_t row = i;
  std::int64_t column = j;
  if (contextual > 0) {
    row = std::max<std::int64_t>(row - contextual + 1, 0);
    column = std::max<std::int64_t>(column - contextual + 1, 0);
    most = most - contextual + 1;
  }
  row = std::min(row, most);
  column = std::min(column, most);
  std::int64_t distance = row - column;
  if (!causal && distance < 0) distance = -distance;
  bool valid = i == j || distance > 0;
  if (window > 0) {
    const bool near = distance <= window;
    valid = valid && (full > 0 ? near || row >= most - full : near);
  }
  return valid || (contextual > 0 && row == 0 && column < most);
}

TEST(Intervals, T65_HstuMaskIsThatOfGenerativeRecommenders) {
  constexpr std::int64_t kLength = 31;
  for (const bool causal : {true, false}) {
    for (const std::int64_t contextual : {0, 1, 5}) {
      for (const std::int64_t targets : {0, 1, 20}) {
        for (const std::int64_t window : {0, 1, 7, 40}) {
          for (const std::int64_t full : {0, 1, 4, 40}) {
            Mask mask;
            mask.kind = MaskKind::hstu;
            mask.hstu_causal = causal;
            mask.contextual.value = contextual;
            mask.targets.value = targets;
            mask.max_attention_length.value = window;
            mask.min_full_attention.value = full;
            const SequenceView sequence = resolved(mask, kLength, kLength);
            for (std::int64_t i = 0; i < kLength; ++i) {
              for (std::int64_t j = 0; j < kLength; ++j) {
                ASSERT_EQ(visible(mask, sequence, i, j),
                          generative_recommenders(kLength, i, j, causal, contextual, targets,
                                                  window, full))
                    << "causal=" << causal << " C=" << contextual << " t=" << targets
                    << " W=" << window << " F=" << full << " row " << i << " key " << j;
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace jfa::detail
