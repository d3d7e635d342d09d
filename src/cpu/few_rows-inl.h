// Sequences with few query rows (pooling with learned queries, single candidates, decoding): every
// key is used a few times only, so loading and transposing it would take most of the time. Here the
// scores are computed transposed, Sᵀ = K·Qᵀ: a query row is a lane of a vector, keys are read as
// scalars where they lie, and softmax needs no sum over set. Query heads that share a key head
// are further lanes, so that their keys are read once.
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

// The sets that the task of `head` computes: none where another task does.
class LaneSets {
 public:
  LaneSets(std::int64_t rows, std::int64_t group, std::int64_t heads, std::int64_t head,
           std::int64_t sets_in_task) {
    const std::int64_t together = std::min(group, kPanel / rows);
    const std::int64_t in_group = (group + together - 1) / together;
    if (head % group % together != 0) return;
    std::int64_t index = head / group * in_group + head % group / together;
    if (index % sets_in_task != 0) return;
    for (std::int64_t n = 0; n < sets_in_task; ++n, ++index) {
      const std::int64_t kv_head = index / in_group;
      const std::int64_t first = index % in_group * together;
      LaneSet set{kv_head * group + first, std::min(together, group - first), rows, 0};
      if (set.head >= heads) return;
      if (count_ > 0) set.first = back().first + back().stride();
      sets_[count_++] = set;
    }
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

// sᵀ[count × lanes] = rows [begin, begin + count)·right, for float32 rows without a copy.
// `row_scratch` holds 32 rows.
HWY_INLINE void lane_products(const Rows& rows, std::int64_t begin, std::int64_t count,
                              const LaneSet& set, const float* HWY_RESTRICT right,
                              float* HWY_RESTRICT row_scratch, std::int64_t row_stride,
                              float* HWY_RESTRICT s, RowPrefetcher& prefetcher) {
  const bool direct = rows.dtype == DType::float32;
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
      product_rows<Update::assign, Order::rows>(std::min<std::int64_t>(kBlockRows, here - i),
                                                set.vectors(), rows.width, left + i * left_stride,
                                                left_stride, right, set.stride(),
                                                s + (j + i) * set.stride(), set.stride(), nullptr);
    }
  }
}

// How often lane_products steps its prefetcher.
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
    const FloatVector rescale = exp2_of(hn::Sub(before, subtract));
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

}  // namespace jfa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
