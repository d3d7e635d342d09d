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

// The mask of one sequence, all parameters resolved (docs/contract.md, "Masks"). Counts are clamped
// to the sequence and no number exceeds Lq + Lk + 1, so sums here never overflow.
struct MaskParameters {
  enum Kind : int { full, causal, window, hstu, prefix_local, blocks, intervals };

  int kind = full;
  int bottom_right = 1;  // position of query row i: i + Lk − Lq, else i
  int hstu_causal = 1;
  long long left = -1;  // window; negative: no bound
  long long right = -1;
  long long contextual = 0;  // hstu
  long long targets = 0;
  long long target_group = 1;
  long long max_attention_length = 0;
  long long min_full_attention = 0;
  long long prefix = 0;  // prefix_local
  long long local = 0;
  long long block = 1;  // blocks
};

// Keys [lo0, hi0) ∪ [lo1, hi1) of the sequence; disjoint, ascending, inside [0, Lk); an empty
// interval has lo == hi. With one interval it is the first.
struct RowIntervals {
  long long lo0 = 0, hi0 = 0;
  long long lo1 = 0, hi1 = 0;
};

// What a block of keys is to a group of query rows.
enum class Visibility : int {
  skipped,  // no row sees any key: no work
  full,     // every row sees every key: no masking
  partial,
};

JFA_HOST_DEVICE constexpr long long smaller(long long a, long long b) {
  return a < b ? a : b;
}
JFA_HOST_DEVICE constexpr long long larger(long long a, long long b) {
  return a > b ? a : b;
}

// Brings two arbitrary intervals into the form RowIntervals promises: clamped to [0, k_length),
// merged where they touch or overlap, ascending.
JFA_HOST_DEVICE constexpr RowIntervals normalized(long long lo0, long long hi0, long long lo1,
                                                  long long hi1, long long k_length) {
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
    const long long hi = larger(hi0, hi1);
    return {smaller(lo0, lo1), hi, hi, hi};
  }
  if (lo0 < lo1) return {lo0, hi0, lo1, hi1};
  return {lo1, hi1, lo0, hi0};
}

JFA_HOST_DEVICE constexpr RowIntervals one_interval(long long lo, long long hi,
                                                    long long k_length) {
  return normalized(lo, hi, 0, 0, k_length);
}

// The part of a row's keys that lies in [begin, end).
JFA_HOST_DEVICE constexpr RowIntervals clipped(const RowIntervals& row, long long begin,
                                               long long end) {
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

JFA_HOST_DEVICE constexpr long long visible_keys(const RowIntervals& row) {
  return row.hi0 - row.lo0 + row.hi1 - row.lo1;
}

// The position p(i) of a query row among the keys.
JFA_HOST_DEVICE constexpr long long position_of(const MaskParameters& mask, long long row,
                                                long long q_length, long long k_length) {
  return mask.bottom_right != 0 ? row + k_length - q_length : row;
}

// HSTU: contextual rows share id 0, history rows count up from there, targets share the last id M.
// A window of W ids ends d = |id(p) − id(j)| at W; rows with full attention have none.
JFA_HOST_DEVICE constexpr RowIntervals hstu_intervals(const MaskParameters& mask, long long p,
                                                      long long length) {
  if (p < 0 || p >= length) return {};
  const long long contextual = mask.contextual;
  const long long first_target = length - mask.targets;
  const long long shift = contextual > 0 ? contextual - 1 : 0;  // key of id x > 0 is x + shift
  const long long last_id = first_target - shift;
  const long long id = smaller(larger(p - shift, 0), last_id);
  const long long window = mask.max_attention_length;
  const bool windowed =
      window > 0 && !(mask.min_full_attention > 0 && id >= last_id - mask.min_full_attention);

  if (contextual > 0 && id == 0) {
    const bool sees_targets = mask.hstu_causal == 0 && (!windowed || last_id <= window);
    return one_interval(0, sees_targets ? length : first_target, length);
  }
  const long long lo = windowed && id > window ? id - window + shift : 0;
  if (p >= first_target) {
    const long long group = (p - first_target) / mask.target_group * mask.target_group;
    return normalized(lo, first_target, first_target + group, p + 1, length);
  }
  if (mask.hstu_causal != 0) return one_interval(lo, p + 1, length);
  const bool sees_targets = !windowed || last_id - id <= window;
  return one_interval(lo, sees_targets ? length : id + window + shift + 1, length);
}

// Keys that query row `row` of a sequence with these lengths sees. For Kind::intervals the caller
// has the bounds: use normalized().
JFA_HOST_DEVICE constexpr RowIntervals row_intervals(const MaskParameters& mask, long long row,
                                                     long long q_length, long long k_length) {
  const long long p = position_of(mask, row, q_length, k_length);
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
      const long long begin = p / mask.block * mask.block;
      return one_interval(begin, begin + mask.block, k_length);
    }
    default:
      return one_interval(0, k_length, k_length);
  }
}

// What the keys [begin, end) are to rows whose intervals are given.
JFA_HOST_DEVICE constexpr Visibility classify(const RowIntervals* rows, long long count,
                                              long long begin, long long end) {
  bool any = false;
  bool all = true;
  for (long long i = 0; i < count; ++i) {
    const RowIntervals part = clipped(rows[i], begin, end);
    any = any || visible_keys(part) > 0;
    all = all && visible_keys(part) == end - begin;
  }
  if (!any) return Visibility::skipped;
  return all ? Visibility::full : Visibility::partial;
}

}  // namespace jfa::kernels
