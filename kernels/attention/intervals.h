// A mask is a set of key intervals per query row. This header is the one place that turns a mask
// into intervals, for the CPU engine, the plan and the GPU kernels alike; it includes nothing, so
// that it also compiles at run time for a GPU. docs/contract.md, "Masks", has the definitions.
#pragma once

#if defined(__CUDACC__)
#define JFA_HOST_DEVICE __host__ __device__
#else
#define JFA_HOST_DEVICE
#endif

namespace jfa::kernels {

// Rows and keys within a sequence. A GPU has them below 2²⁹ (the host refuses more), so that sums
// of three stay exact, and 32-bit arithmetic costs it half the registers.
#if defined(__CUDACC__)
using Index = int;
#else
using Index = long long;
#endif

// The mask of one sequence, all parameters resolved (docs/contract.md, "Masks"). Counts are clamped
// to the sequence and no number exceeds Lq + Lk + 1, so sums here never overflow.
struct MaskParameters {
  enum Kind : int { full, causal, window, hstu, prefix_local, blocks, intervals };

  int kind = full;
  int bottom_right = 1;  // position of query row i: i + Lk − Lq, else i
  int hstu_causal = 1;
  Index left = -1;  // window; negative: no bound
  Index right = -1;
  Index contextual = 0;  // hstu
  Index targets = 0;
  Index target_group = 1;
  Index max_attention_length = 0;
  Index min_full_attention = 0;
  Index prefix = 0;  // prefix_local
  Index local = 0;
  Index block = 1;  // blocks
};

// Keys [lo0, hi0) ∪ [lo1, hi1) of the sequence; disjoint, ascending, inside [0, Lk); an empty
// interval has lo == hi. With one interval it is the first.
struct RowIntervals {
  Index lo0 = 0, hi0 = 0;
  Index lo1 = 0, hi1 = 0;
};

// What a block of keys is to a group of query rows.
enum class Visibility : int {
  skipped,  // no row sees any key: no work
  full,     // every row sees every key: no masking
  partial,
};

template <typename A, typename B>
JFA_HOST_DEVICE constexpr auto smaller(A a, B b) {
  return a < b ? a : b;
}
template <typename A, typename B>
JFA_HOST_DEVICE constexpr auto larger(A a, B b) {
  return a > b ? a : b;
}

// Brings two arbitrary intervals into the form RowIntervals promises: clamped to [0, k_length),
// merged where they touch or overlap, ascending.
JFA_HOST_DEVICE constexpr RowIntervals normalized(Index lo0, Index hi0, Index lo1, Index hi1,
                                                  Index k_length) {
  lo0 = larger(lo0, 0);
  lo1 = larger(lo1, 0);
  hi0 = smaller(hi0, k_length);
  hi1 = smaller(hi1, k_length);
  const bool first = lo0 < hi0;
  const bool second = lo1 < hi1;
  if (!first && !second) return {};
  if (!second) return {lo0, hi0, hi0, hi0};
  if (!first) return {lo1, hi1, hi1, hi1};
  if (lo0 <= hi1 && lo1 <= hi0) {
    const Index hi = larger(hi0, hi1);
    return {smaller(lo0, lo1), hi, hi, hi};
  }
  if (lo0 < lo1) return {lo0, hi0, lo1, hi1};
  return {lo1, hi1, lo0, hi0};
}

JFA_HOST_DEVICE constexpr RowIntervals one_interval(Index lo, Index hi, Index k_length) {
  return normalized(lo, hi, 0, 0, k_length);
}

// The part of a row's keys that lies in [begin, end).
JFA_HOST_DEVICE constexpr RowIntervals clipped(const RowIntervals& row, Index begin, Index end) {
  RowIntervals part{larger(row.lo0, begin), smaller(row.hi0, end), larger(row.lo1, begin),
                    smaller(row.hi1, end)};
  if (part.hi0 <= part.lo0) {
    part.lo0 = part.lo1;
    part.hi0 = part.hi1;
    part.lo1 = part.hi1;
  }
  if (part.hi0 <= part.lo0) return {begin, begin, begin, begin};
  if (part.hi1 <= part.lo1) part.lo1 = part.hi1 = part.hi0;
  return part;
}

JFA_HOST_DEVICE constexpr Index visible_keys(const RowIntervals& row) {
  return row.hi0 - row.lo0 + row.hi1 - row.lo1;
}

// The position p(i) of a query row among the keys.
JFA_HOST_DEVICE constexpr Index position_of(const MaskParameters& mask, Index row, Index q_length,
                                            Index k_length) {
  return mask.bottom_right != 0 ? row + k_length - q_length : row;
}

// HSTU: contextual rows share id 0, history rows count up from there, targets share the last id M.
// A window of W ids ends d = |id(p) − id(j)| at W; rows with full attention have none.
JFA_HOST_DEVICE constexpr RowIntervals hstu_intervals(const MaskParameters& mask, Index p,
                                                      Index length) {
  if (p < 0 || p >= length) return {};
  const Index contextual = mask.contextual;
  const Index first_target = length - mask.targets;
  const Index shift = contextual > 0 ? contextual - 1 : 0;  // key of id x > 0 is x + shift
  const Index last_id = first_target - shift;
  const Index id = smaller(larger(p - shift, 0), last_id);
  const Index window = mask.max_attention_length;
  const bool windowed =
      window > 0 && !(mask.min_full_attention > 0 && id >= last_id - mask.min_full_attention);

  if (contextual > 0 && id == 0) {
    const bool sees_targets = mask.hstu_causal == 0 && (!windowed || last_id <= window);
    return one_interval(0, sees_targets ? length : first_target, length);
  }
  const Index lo = windowed && id > window ? id - window + shift : 0;
  if (p >= first_target) {
    const Index group = (p - first_target) / mask.target_group * mask.target_group;
    return normalized(lo, first_target, first_target + group, p + 1, length);
  }
  if (mask.hstu_causal != 0) return one_interval(lo, p + 1, length);
  const bool sees_targets = !windowed || last_id - id <= window;
  return one_interval(lo, sees_targets ? length : id + window + shift + 1, length);
}

// Keys that query row `row` of a sequence with these lengths sees. For Kind::intervals the caller
// has the bounds: use normalized().
JFA_HOST_DEVICE constexpr RowIntervals row_intervals(const MaskParameters& mask, Index row,
                                                     Index q_length, Index k_length) {
  const Index p = position_of(mask, row, q_length, k_length);
  switch (mask.kind) {
    case MaskParameters::causal:
      return one_interval(0, p + 1, k_length);
    case MaskParameters::window:
      return one_interval(mask.left < 0 ? 0 : p - mask.left,
                          mask.right < 0 ? k_length : p + mask.right + 1, k_length);
    case MaskParameters::hstu:
      return hstu_intervals(mask, p, k_length);
    case MaskParameters::prefix_local:
      return normalized(0, smaller(mask.prefix, p + 1), p - mask.local + 1, p + 1, k_length);
    case MaskParameters::blocks: {
      if (p < 0) return {};
      const Index begin = p / mask.block * mask.block;
      return one_interval(begin, begin + mask.block, k_length);
    }
    default:
      return one_interval(0, k_length, k_length);
  }
}

// What the keys [begin, end) are to rows whose intervals are given.
JFA_HOST_DEVICE constexpr Visibility classify(const RowIntervals* rows, Index count, Index begin,
                                              Index end) {
  bool any = false;
  bool all = true;
  for (Index i = 0; i < count; ++i) {
    const RowIntervals part = clipped(rows[i], begin, end);
    any = any || visible_keys(part) > 0;
    all = all && visible_keys(part) == end - begin;
  }
  if (!any) return Visibility::skipped;
  return all ? Visibility::full : Visibility::partial;
}

}  // namespace jfa::kernels
