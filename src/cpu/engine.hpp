// The CPU engine: what its parts share. A call is cut into independent tasks (one tile of query
// rows in one head; in the backward pass one key sequence in one key head), each computed by one
// thread from float32 copies of the rows it needs. No task depends on another or on the number of
// threads, so results never do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "api/call.hpp"
#include "attention/intervals.h"
#include "jfa/attention.hpp"
#include "plan/plan_data.hpp"

namespace jfa::cpu {

// Rows of one sequence in one head of a tensor of any floating type.
struct Rows {
  const void* data = nullptr;
  DType dtype = DType::float32;
  std::int64_t row_stride = 0;     // in elements
  std::int64_t column_stride = 1;  // not 1 only for incoming gradients
  std::int64_t width = 0;          // elements of a row

  float at(std::int64_t row, std::int64_t column) const;
};

// Rows of `tensor` (layout `layout`) that belong to sequence `index` with first row `first`.
Rows rows_in_head(const Tensor& tensor, Layout layout, std::int64_t index, std::int64_t first,
                  std::int64_t head);
// What lies between the first element of head `begin` and the last of head `end` − 1, or of as many
// heads as are next to each other.
Rows rows_in_heads(const Tensor& tensor, Layout layout, std::int64_t index, std::int64_t first,
                   std::int64_t begin, std::int64_t end);

// Smallest time difference of every bucket, so that a bucket is found with whole numbers and agrees
// bit for bit with ⌊ln(max(1, |t_q − t_k|)) / time_scale⌋ in float64.
class TimeBuckets {
 public:
  TimeBuckets() = default;
  TimeBuckets(std::int64_t buckets, double time_scale);
  std::int64_t bucket_of(std::int64_t q_time, std::int64_t k_time) const;

 private:
  std::vector<std::uint64_t> first_difference_;  // of bucket b; ascending
  std::vector<std::int64_t> bucket_of_power_;    // bucket of the difference 2^e
};

// How the raw products Q·K of one sequence and head become scores.
struct Scores {
  Activation activation = Activation::softmax;
  float leaky_slope = 0;
  float scale = 1;  // of the contract
  // Multiplies a row inside exp2 (log2 e included) or act: scale · products, or adjusted scores.
  float late_scale = 1;
  bool adjusted = false;  // a pass over the products comes first: bias, or a scale that is not > 0

  Rows dense;  // bias rows of this sequence and head; data == nullptr: absent
  bool has_slope = false;
  float slope = 0;
  const float* position_table = nullptr;
  std::int64_t position_stride = 0;
  std::int64_t position_reach = 0;  // n − 1
  const float* time_table = nullptr;
  std::int64_t time_stride = 0;
  const std::int64_t* q_times = nullptr;  // of row 0 of the sequence
  const std::int64_t* k_times = nullptr;
  std::int64_t q_time_stride = 0;
  std::int64_t k_time_stride = 0;
  const TimeBuckets* buckets = nullptr;
  std::int64_t shift = 0;  // p(i) = i + shift
};

// A call with what every task reads.
struct Context {
  const AttentionArgs& args;
  const detail::Call& call;
  const detail::PlanData& plan;
  TimeBuckets buckets;
  std::int64_t group = 1;      // query heads a key head
  bool adjusted = false;       // as Scores::adjusted, the same in every sequence and head
  std::int64_t lane_sets = 1;  // sets of heads that a task computes at once where rows are few

  Scores scores_of(const detail::SequenceView& sequence, std::int64_t head) const;
  double out_scale_of(const detail::SequenceView& sequence, std::int64_t row) const;
  kernels::RowIntervals visible(const detail::SequenceView& sequence, std::int64_t row) const {
    return detail::visible_intervals(sequence, args.mask.intervals, row);
  }
};

// Whether scores need a pass of their own: a bias, or a scale that is not positive.
bool scores_adjusted(const AttentionArgs& args, const detail::Call& call);

Context make_context(const AttentionArgs& args, const detail::Call& call,
                     const detail::PlanData& plan);

// Hands out aligned pieces of one block of scratch; with a null block it only adds up sizes.
class Carver {
 public:
  explicit Carver(void* block) : block_(static_cast<std::byte*>(block)) {}
  template <typename T>
  T* take(std::int64_t count) {
    auto* piece = block_ == nullptr ? nullptr : reinterpret_cast<T*>(block_ + used_);
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    used_ += (bytes + 63) / 64 * 64 + 64;  // the extra line takes vector loads behind the end
    return piece;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* block_ = nullptr;
  std::size_t used_ = 0;
};

// First and last key (one behind) that a row, or a group of rows, sees in one block of keys.
struct KeyRange {
  int begin = 0;
  int end = 0;
};
struct RowRange {
  KeyRange first;
  KeyRange second;
};

// Row strides of scratch matrices: an odd number of cache lines, so that a column of a matrix does
// not fall into a few sets of L1.
constexpr std::int64_t padded_stride(std::int64_t width) {
  const std::int64_t lines = (width + 15) / 16;
  return (lines | 1) * 16;
}

// Sequences with few query rows: most sets of heads that a task computes at once, and the rows of a
// set at most.
constexpr std::int64_t kMostLaneSets = 8;
constexpr std::int64_t kMostLanes = 32;
constexpr std::int64_t kMostBackwardLanes = 96;  // of the sets that a backward task holds at once

// Sizes of the tiles of one call; they depend on head dimensions only.
struct Blocking {
  std::int64_t rows = 0;  // query rows of a tile
  std::int64_t keys = 0;  // keys of a block
};
Blocking forward_blocking(const detail::Call& call);
Blocking backward_blocking(const detail::Call& call);

struct ForwardScratch {
  ForwardScratch(const detail::Call& call, const Blocking& blocking, void* block);

  Blocking blocking;
  std::int64_t q_stride = 0;
  std::int64_t v_stride = 0;
  std::int64_t s_stride = 0;
  float* q = nullptr;         // [rows][D]
  float* q_lanes = nullptr;   // Qᵀ of few rows, [sets][D][lanes]
  float* k = nullptr;         // [32][D], keys on their way into panels
  float* k_panels = nullptr;  // Kᵀ
  float* v = nullptr;         // [keys][Dv]
  float* s = nullptr;         // [rows][keys], scores, then P
  float* out = nullptr;       // [rows][Dv], not yet divided by the sum
  float* maximum = nullptr;   // [rows] each
  float* sum = nullptr;
  float* factor = nullptr;
  kernels::RowIntervals* intervals = nullptr;
  RowRange* ranges = nullptr;
  KeyRange* groups = nullptr;
  std::size_t bytes = 0;
};

struct BackwardScratch {
  // `dq_rows`: rows of the query gradient that a task holds at once.
  BackwardScratch(const detail::Call& call, const Blocking& blocking, std::int64_t dq_rows,
                  void* block);

  Blocking blocking;
  std::int64_t q_stride = 0;
  std::int64_t v_stride = 0;
  std::int64_t s_stride = 0;
  float* k = nullptr;         // [keys][D], times scale
  float* k_panels = nullptr;  // Kᵀ
  float* v = nullptr;         // [32][Dv], values on their way into panels
  float* v_panels = nullptr;  // Vᵀ
  float* d_k = nullptr;       // [keys][D]
  float* d_v = nullptr;       // [keys][Dv]
  float* q = nullptr;         // [rows][D]
  float* d_out = nullptr;     // [rows][Dv], times the scale of the output
  float* p = nullptr;         // [rows][keys], scores, then P
  float* d_s = nullptr;       // [rows][keys], gradient of P, then of S
  float* d_q = nullptr;       // [dq_rows][D]
  float* q_lanes = nullptr;   // few rows: Qᵀ and dOᵀ, [sets][D or Dv][lanes]
  float* d_out_lanes = nullptr;
  float* row = nullptr;                // [D or Dv], a row of the output
  std::uint16_t* tile_rows = nullptr;  // [48][D or Dv], rows on their way into tiles
  float* delta = nullptr;              // [rows], Σ d_out · out
  // [rows], lse / ln 2 as the sum of two float32: with scores in the hundreds one would cost
  // digits.
  float* lse = nullptr;
  float* lse_rest = nullptr;
  kernels::RowIntervals* intervals = nullptr;
  RowRange* ranges = nullptr;
  KeyRange* groups = nullptr;
  std::size_t bytes = 0;
};

void forward(const ForwardArgs& args, const detail::Call& call, const detail::PlanData& plan,
             const Execution& execution);
void backward(const BackwardArgs& args, const detail::Call& call, const detail::PlanData& plan,
              const Execution& execution);
std::size_t forward_scratch_bytes(const detail::Call& call, const Execution& execution);
std::size_t backward_scratch_bytes(const BackwardArgs& args, const detail::Call& call,
                                   const detail::PlanData& plan, const Execution& execution);

}  // namespace jfa::cpu
