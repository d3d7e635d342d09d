// Sequences with few query rows (pooling with learned queries, single candidates, decoding): every
// key is used a few times only, so loading and transposing it would take most of the time. Here the
// scores are computed transposed, Sᵀ = K·Qᵀ: a query row is a lane of a vector, keys are read as
// scalars where they lie, and softmax needs no sum over a vector. Query heads that share a key head
// are further lanes, so that their keys are read once. Where a vector would have few lanes in use,
// a score is a dot product along the row instead.
#if defined(JFA_CPU_FEW_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef JFA_CPU_FEW_ROWS_INL_H_
#undef JFA_CPU_FEW_ROWS_INL_H_
#else
#define JFA_CPU_FEW_ROWS_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu/score-inl.h"

HWY_BEFORE_NAMESPACE();
namespace jfa::cpu::HWY_NAMESPACE {

// Keys of a block: few, so that a block fits L2 in many heads.
constexpr std::int64_t kLaneKeys = 64;

// Rows of a sequence in heads of one key head: row i of head `head` + h is lane h·rows + i.
struct LaneSet {
  std::int64_t head = 0;
  std::int64_t heads = 0;
  std::int64_t rows = 0;
  std::int64_t first = 0;  // of the rows in the scratch

  std::int64_t count() const { return rows * heads; }
  std::int64_t vectors() const { return count() > kLanes ? 2 : 1; }
  std::int64_t stride() const { return vectors() * kLanes; }
};

// Sets up to this count take dot products (rows no shorter than a vector, so that they fit in the
// room of lanes): half the time of lanes for one row, equal for five.
constexpr std::int64_t kMostDots = std::min<std::int64_t>(4, kLanes / 2);
HWY_INLINE bool takes_dots(const LaneSet& set, std::int64_t width) {
  return set.count() <= kMostDots && width >= kLanes;
}

// Some sets of a sequence; those of one key head follow each other.
class LaneSets {
 public:
  // Sets [index, index + count) as far as there are heads.
  LaneSets(std::int64_t rows, std::int64_t group, std::int64_t heads, std::int64_t index,
           std::int64_t count) {
    const std::int64_t together = std::min(group, kPanel / rows);
    const std::int64_t in_group = (group + together - 1) / together;
    for (; count > 0; --count, ++index) {
      const std::int64_t kv_head = index / in_group;
      const std::int64_t first = index % in_group * together;
      LaneSet set{kv_head * group + first, std::min(together, group - first), rows, 0};
      if (set.head >= heads) return;
      if (count_ > 0) set.first = back().first + back().stride();
      sets_[count_++] = set;
    }
  }
  // The sets that the forward task of `head` computes: none where another task does.
  static LaneSets of_task(std::int64_t rows, std::int64_t group, std::int64_t heads,
                          std::int64_t head, std::int64_t sets_in_task) {
    const std::int64_t together = std::min(group, kPanel / rows);
    const std::int64_t in_group = (group + together - 1) / together;
    const std::int64_t index = head / group * in_group + head % group / together;
    const bool first = head % group % together == 0 && index % sets_in_task == 0;
    return {rows, group, heads, index, first ? sets_in_task : 0};
  }

  const LaneSet* begin() const { return sets_.data(); }
  const LaneSet* end() const { return sets_.data() + count_; }
  const LaneSet& front() const { return sets_[0]; }
  const LaneSet& back() const { return sets_[count_ - 1]; }
  bool empty() const { return count_ == 0; }
  std::int64_t size() const { return static_cast<std::int64_t>(count_); }

 private:
  std::array<LaneSet, static_cast<std::size_t>(kMostLaneSets)> sets_;
  std::size_t count_ = 0;
};

// qᵀ [width][stride] of rows in memory; zero in lanes that are not used.
HWY_INLINE void load_lane(const Rows& rows, std::int64_t row, std::int64_t lane,
                          std::int64_t stride, float* HWY_RESTRICT row_scratch,
                          float* HWY_RESTRICT transposed) {
  load_rows(rows, row, 1, round_up(rows.width, kLanes), row_scratch, 0);
  for (std::int64_t d = 0; d < rows.width; ++d) transposed[d * stride + lane] = row_scratch[d];
}

// Calls product(left, left_stride, first, count) for kBlockRows rows or fewer at a time of
// [begin, begin + count): `direct` where they lie, else as float32 in `row_scratch`, which holds 32
// rows.
template <typename Product>
HWY_INLINE void for_row_blocks(const Rows& rows, std::int64_t begin, std::int64_t count,
                               bool direct, float* HWY_RESTRICT row_scratch,
                               std::int64_t row_stride, RowPrefetcher& prefetcher,
                               const Product& product) {
  constexpr std::int64_t step = 24;  // a multiple of kBlockRows
  for (std::int64_t j = 0; j < count; j += step) {
    const std::int64_t here = std::min(step, count - j);
    const float* left = row_scratch;
    std::int64_t left_stride = row_stride;
    if (direct) {
      left = element<float>(rows, begin + j);
      left_stride = rows.row_stride;
    } else {
      load_rows(rows, begin + j, here, round_up(rows.width, kLanes), row_scratch, row_stride);
    }
    for (std::int64_t i = 0; i < here; i += kBlockRows) {
      prefetcher.step();
      product(left + i * left_stride, left_stride, j + i,
              std::min<std::int64_t>(kBlockRows, here - i));
    }
  }
}

// sᵀ[count × lanes] = rows [begin, begin + count)·right.
HWY_INLINE void lane_products(const Rows& rows, std::int64_t begin, std::int64_t count,
                              const LaneSet& set, const float* HWY_RESTRICT right,
                              float* HWY_RESTRICT row_scratch, std::int64_t row_stride,
                              float* HWY_RESTRICT s, RowPrefetcher& prefetcher) {
  for_row_blocks(
      rows, begin, count, rows.dtype == DType::float32, row_scratch, row_stride, prefetcher,
      [&](const float* left, std::int64_t left_stride, std::int64_t first, std::int64_t here)
          HWY_ATTR {
            product_rows<Update::assign, Order::rows>(
                here, set.vectors(), rows.width, left, left_stride, right, set.stride(),
                s + first * set.stride(), set.stride(), nullptr);
          });
}

// s[i][j] = left row i · right row j over `width` floats, a multiple of kLanes.
template <int kRows, int kKeys>
HWY_INLINE void dot_block(std::int64_t width, const float* HWY_RESTRICT left,
                          std::int64_t left_stride, const float* HWY_RESTRICT right,
                          std::int64_t right_stride, float* HWY_RESTRICT s, std::int64_t s_stride) {
  const Floats f32;
  FloatVector sum[kRows][kKeys];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 6
    for (int j = 0; j < kKeys; ++j) sum[i][j] = hn::Zero(f32);
  }
  for (std::int64_t d = 0; d < width; d += kLanes) {
#pragma GCC unroll 6
    for (int j = 0; j < kKeys; ++j) {
      const FloatVector key = hn::LoadU(f32, right + j * right_stride + d);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        sum[i][j] = hn::MulAdd(hn::LoadU(f32, left + i * left_stride + d), key, sum[i][j]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 6
    for (int j = 0; j < kKeys; ++j) {
      s[i * s_stride + j] = hn::GetLane(hn::SumOfLanes(f32, sum[i][j]));
    }
  }
}

// The same for `keys` rows of `right`, kRows · kKeys sums at a time in registers.
template <int kRows>
HWY_NOINLINE void dot_rows(std::int64_t keys, std::int64_t width, const float* HWY_RESTRICT left,
                           std::int64_t left_stride, const float* HWY_RESTRICT right,
                           std::int64_t right_stride, float* HWY_RESTRICT s,
                           std::int64_t s_stride) {
  constexpr int kKeys = kRows <= 2 ? 6 : kRows == 3 ? 3 : 2;
  std::int64_t j = 0;
  for (; j + kKeys <= keys; j += kKeys) {
    dot_block<kRows, kKeys>(width, left, left_stride, right + j * right_stride, right_stride, s + j,
                            s_stride);
  }
  for (; j < keys; ++j) {
    dot_block<kRows, 1>(width, left, left_stride, right + j * right_stride, right_stride, s + j,
                        s_stride);
  }
}

// Calls function(integral_constant) with a count of 1 to kMostDots.
template <typename Function>
HWY_INLINE void with_rows(std::int64_t count, const Function& function) {
  switch (count) {
    case 1:
      return function(std::integral_constant<int, 1>());
    case 2:
      return function(std::integral_constant<int, 2>());
    case 3:
      return function(std::integral_constant<int, 3>());
    default:
      return function(std::integral_constant<int, 4>());
  }
}

// s[set.count() × count] = left·(rows [begin, begin + count))ᵀ, rows of s kLaneKeys apart; `left`
// has whole vectors.
HWY_INLINE void dot_products(const Rows& rows, std::int64_t begin, std::int64_t count,
                             const LaneSet& set, const float* HWY_RESTRICT left,
                             float* HWY_RESTRICT row_scratch, std::int64_t row_stride,
                             float* HWY_RESTRICT s, RowPrefetcher& prefetcher) {
  const std::int64_t width = round_up(rows.width, kLanes);
  const bool direct = rows.dtype == DType::float32 && width == rows.width;
  for_row_blocks(rows, begin, count, direct, row_scratch, row_stride, prefetcher,
                 [&](const float* right, std::int64_t right_stride, std::int64_t first,
                     std::int64_t here) HWY_ATTR {
                   with_rows(set.count(), [&](auto lanes) HWY_ATTR {
                     dot_rows<lanes()>(here, width, left, width, right, right_stride, s + first,
                                       kLaneKeys);
                   });
                 });
}

// How often lane_products and dot_products step their prefetcher.
HWY_INLINE std::int64_t lane_blocks(std::int64_t count) {
  return (count + kBlockRows - 1) / kBlockRows;
}

// Writes `value` to the scores of every lane that `range` of its row hides.
HWY_INLINE void fill_hidden_lanes(const LaneSet& set, std::int64_t keys, const RowRange* ranges,
                                  float value, float* HWY_RESTRICT s) {
  for (std::int64_t i = 0; i < set.rows; ++i) {
    const RowRange& range = ranges[i];
    for (std::int64_t j = 0; j < keys; ++j) {
      const bool seen = (j >= range.first.begin && j < range.first.end) ||
                        (j >= range.second.begin && j < range.second.end);
      if (seen) continue;
      for (std::int64_t h = 0; h < set.heads; ++h) {
        s[j * set.stride() + h * set.rows + i] = value;
      }
    }
  }
}

// One block of online softmax in every lane: s becomes P with the new maximum, and `factor` is what
// older sums must be multiplied with.
HWY_INLINE void softmax_lanes(const LaneSet& set, std::int64_t keys, float late_scale,
                              float* HWY_RESTRICT s, float* HWY_RESTRICT maximum,
                              float* HWY_RESTRICT sum, float* HWY_RESTRICT factor) {
  const Floats f32;
  const FloatVector lowest = hn::Set(f32, -std::numeric_limits<float>::infinity());
  const FloatVector scale = hn::Set(f32, late_scale);
  const std::int64_t stride = set.stride();
  for (std::int64_t lane = 0; lane < stride; lane += kLanes) {
    float* column = s + lane;
    FloatVector top = lowest;
    for (std::int64_t j = 0; j < keys; ++j) {
      top = hn::Max(top, hn::LoadU(f32, column + j * stride));
    }
    const FloatVector before = hn::LoadU(f32, maximum + lane);
    const FloatVector after = hn::Max(before, hn::Mul(top, scale));
    // A lane that has not seen a key yet: its weights are exp2(−∞ − 0).
    const FloatVector subtract = hn::IfThenZeroElse(hn::Eq(after, lowest), after);
    FloatVector total = hn::Zero(f32);
    for (std::int64_t j = 0; j < keys; ++j) {
      float* at = column + j * stride;
      const FloatVector p = exp2_of(hn::MulSub(hn::LoadU(f32, at), scale, subtract));
      hn::StoreU(p, f32, at);
      total = hn::Add(total, p);
    }
    // exp2_of(0) is 1 + 2⁻²³: over thousands of blocks that would grow.
    const FloatVector rescale =
        hn::IfThenElse(hn::Eq(before, after), hn::Set(f32, 1), exp2_of(hn::Sub(before, subtract)));
    hn::StoreU(after, f32, maximum + lane);
    hn::StoreU(rescale, f32, factor + lane);
    hn::StoreU(hn::MulAdd(hn::LoadU(f32, sum + lane), rescale, total), f32, sum + lane);
  }
}

// sums[lanes × columns] = factor·sums + left·right with leftᵀ [keys][set.stride()].
template <Update kUpdate>
HWY_INLINE void add_lane_products(const LaneSet& set, std::int64_t keys, std::int64_t columns,
                                  const float* HWY_RESTRICT left, const float* HWY_RESTRICT right,
                                  std::int64_t right_stride, float* HWY_RESTRICT sums,
                                  std::int64_t sums_stride, const float* HWY_RESTRICT factor) {
  for (std::int64_t j = 0; j < columns; j += kPanel) {
    const std::int64_t vectors = columns - j > kLanes ? 2 : 1;
    for (std::int64_t i = 0; i < set.count(); i += kBlockRows) {
      product_rows<kUpdate, Order::columns>(std::min<std::int64_t>(kBlockRows, set.count() - i),
                                            vectors, keys, left + i, set.stride(), right + j,
                                            right_stride, sums + i * sums_stride + j, sums_stride,
                                            factor + i);
    }
  }
}

// sums[kRows × columns] = factor·sums + left·right, kRows · kVectors sums at a time in registers.
template <Update kUpdate, int kRows, int kVectors>
HWY_INLINE void add_row_products(std::int64_t keys, std::int64_t columns,
                                 const float* HWY_RESTRICT left, std::int64_t left_stride,
                                 const float* HWY_RESTRICT right, std::int64_t right_stride,
                                 float* HWY_RESTRICT sums, std::int64_t sums_stride,
                                 const float* HWY_RESTRICT factor) {
  std::int64_t j = 0;
  for (; j + kVectors * kLanes <= columns; j += kVectors * kLanes) {
    product_block<kUpdate, Order::rows, kRows, kVectors>(
        keys, left, left_stride, right + j, right_stride, sums + j, sums_stride, factor);
  }
  if constexpr (kVectors > 1) {
    add_row_products<kUpdate, kRows, kVectors / 2>(keys, columns - j, left, left_stride, right + j,
                                                   right_stride, sums + j, sums_stride, factor);
  }
}

// The same for a set that takes dot products; rows of `left` are kLaneKeys apart.
template <Update kUpdate>
HWY_INLINE void add_dot_products(const LaneSet& set, std::int64_t keys, std::int64_t columns,
                                 const float* HWY_RESTRICT left, const float* HWY_RESTRICT right,
                                 std::int64_t right_stride, float* HWY_RESTRICT sums,
                                 std::int64_t sums_stride, const float* HWY_RESTRICT factor) {
  with_rows(set.count(), [&](auto rows) HWY_ATTR {
    constexpr int kVectors = rows() == 1 ? 8 : rows() < 4 ? 4 : 2;
    add_row_products<kUpdate, rows(), kVectors>(keys, columns, left, kLaneKeys, right, right_stride,
                                                sums, sums_stride, factor);
  });
}

}  // namespace jfa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
