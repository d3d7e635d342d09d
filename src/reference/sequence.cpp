#include "reference/sequence.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "api/scalar.hpp"
#include "reference/visibility.hpp"

namespace jfa::detail {
namespace {

// First element of row `row` of sequence `index` (whose first row in a jagged tensor is `first`).
std::int64_t row_offset(const Tensor& tensor, Layout layout, std::int64_t index, std::int64_t first,
                        std::int64_t row, std::int64_t head) {
  if (layout == Layout::dense) {
    return index * tensor.strides[0] + row * tensor.strides[1] + head * tensor.strides[2];
  }
  return (first + row) * tensor.strides[0] + head * tensor.strides[1];
}

// `rows` rows of `columns` elements; offset_of(i) is the first element of row i.
template <typename OffsetOf>
Matrix load(const Tensor& tensor, std::int64_t rows, std::int64_t columns, OffsetOf offset_of) {
  Matrix matrix{rows, columns, {}};
  matrix.values.reserve(static_cast<std::size_t>(rows * columns));
  const std::int64_t step = tensor.strides.at(static_cast<std::size_t>(tensor.rank - 1));
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t first = offset_of(i);
    for (std::int64_t c = 0; c < columns; ++c) {
      matrix.values.push_back(real_at(tensor, first + c * step));
    }
  }
  return matrix;
}

// Index along an axis that is shared when its extent is 1.
std::int64_t shared(std::int64_t extent, std::int64_t index) {
  return extent == 1 ? 0 : index;
}

// Row among all stored rows of one side, which time stamps count.
std::int64_t stored_row(const Tensor& tensor, Layout layout, std::int64_t index, std::int64_t first,
                        std::int64_t row) {
  return layout == Layout::dense ? index * tensor.shape[1] + row : first + row;
}

}  // namespace

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

ReferenceSequence::ReferenceSequence(const AttentionArgs& args, const Call& call,
                                     const SequenceView& sequence, std::int64_t head)
    : args_(args), call_(call), sequence_(sequence), head_(head) {
  q_ = load(args.q, sequence.q_length, call.dim, [&](std::int64_t i) { return q_row(args.q, i); });
  k_ = load(args.k, sequence.k_length, call.dim, [&](std::int64_t j) { return k_row(args.k, j); });
  v_ = load(args.v, sequence.k_length, call.value_dim,
            [&](std::int64_t j) { return k_row(args.v, j); });
}

std::vector<std::int64_t> ReferenceSequence::visible_keys(std::int64_t i) const {
  std::vector<std::int64_t> keys;
  for (std::int64_t j = 0; j < sequence_.k_length; ++j) {
    if (visible(args_.mask, sequence_, i, j)) keys.push_back(j);
  }
  return keys;
}

double ReferenceSequence::score(std::int64_t i, std::int64_t j) const {
  return call_.scale * dot(q_.row(i), k_.row(j)) + bias(i, j);
}

double ReferenceSequence::out_scale(std::int64_t i) const {
  if (args_.out_scale_kind != OutScale::per_token) return sequence_.out_scale;
  const Tensor& scales = args_.out_scales;
  return sequence_.out_scale * real_at(scales, (sequence_.out_row + i) * scales.strides[0]);
}

Matrix ReferenceSequence::out_rows(const Tensor& tensor) const {
  return load(tensor, sequence_.q_length, call_.value_dim,
              [&](std::int64_t i) { return out_row(tensor, i); });
}

std::int64_t ReferenceSequence::q_row(const Tensor& tensor, std::int64_t i) const {
  return row_offset(tensor, args_.q_sequences.layout, sequence_.index, sequence_.q_first, i, head_);
}

std::int64_t ReferenceSequence::k_row(const Tensor& tensor, std::int64_t j) const {
  const std::int64_t kv_head = head_ / (call_.heads / call_.kv_heads);
  return row_offset(tensor, args_.kv_sequences.layout, sequence_.kv_index, sequence_.k_first, j,
                    kv_head);
}

std::int64_t ReferenceSequence::out_row(const Tensor& tensor, std::int64_t i) const {
  return row_offset(tensor, out_layout(args_.q_sequences.layout), sequence_.index,
                    sequence_.q_first, i, head_);
}

std::int64_t ReferenceSequence::lse_entry(const Tensor& tensor, std::int64_t i) const {
  return head_ * tensor.strides[0] + (sequence_.out_row + i) * tensor.strides[1];
}

std::int64_t ReferenceSequence::dense_entry(const Tensor& tensor, std::int64_t i,
                                            std::int64_t j) const {
  return element_offset(
      tensor, {shared(tensor.shape[0], sequence_.index), shared(tensor.shape[1], head_), i, j});
}

std::int64_t ReferenceSequence::slope_entry(const Tensor& tensor) const {
  if (tensor.rank == 1) return head_ * tensor.strides[0];
  return element_offset(tensor, {sequence_.index, head_, 0, 0});
}

std::int64_t ReferenceSequence::position_entry(const Tensor& tensor, std::int64_t i,
                                               std::int64_t j) const {
  const std::int64_t farthest = (tensor.shape[1] - 1) / 2;  // n − 1
  const std::int64_t offset = std::clamp(j - position(sequence_, i), -farthest, farthest);
  return element_offset(tensor, {shared(tensor.shape[0], head_), offset + farthest, 0, 0});
}

std::int64_t ReferenceSequence::time_entry(const Tensor& tensor, std::int64_t i,
                                           std::int64_t j) const {
  const Tensor& q_times = args_.bias.q_timestamps;
  const Tensor& k_times = args_.bias.kv_timestamps;
  const std::int64_t q_time =
      integer_at(q_times, q_times.strides[0] * stored_row(args_.q, args_.q_sequences.layout,
                                                          sequence_.index, sequence_.q_first, i));
  const std::int64_t k_time = integer_at(
      k_times, k_times.strides[0] * stored_row(args_.k, args_.kv_sequences.layout,
                                               sequence_.kv_index, sequence_.k_first, j));
  // Unsigned, because the difference of two int64 may not fit into int64.
  const std::uint64_t later = static_cast<std::uint64_t>(std::max(q_time, k_time));
  const std::uint64_t gap = later - static_cast<std::uint64_t>(std::min(q_time, k_time));
  const double seconds = std::max(1.0, static_cast<double>(gap));
  const double bucket = std::min(static_cast<double>(tensor.shape[1] - 1),
                                 std::floor(std::log(seconds) / args_.bias.time_scale));
  return element_offset(tensor,
                        {shared(tensor.shape[0], head_), static_cast<std::int64_t>(bucket), 0, 0});
}

double ReferenceSequence::distance(std::int64_t i, std::int64_t j) const {
  return static_cast<double>(std::abs(position(sequence_, i) - j));
}

double ReferenceSequence::bias(std::int64_t i, std::int64_t j) const {
  const Bias& bias = args_.bias;
  double sum = 0;
  if (bias.dense.present()) sum += real_at(bias.dense, dense_entry(bias.dense, i, j));
  if (bias.alibi_slopes.present()) {
    sum -= real_at(bias.alibi_slopes, slope_entry(bias.alibi_slopes)) * distance(i, j);
  }
  if (bias.position_table.present()) {
    sum += real_at(bias.position_table, position_entry(bias.position_table, i, j));
  }
  if (bias.time_table.present()) {
    sum += real_at(bias.time_table, time_entry(bias.time_table, i, j));
  }
  return sum;
}

}  // namespace jfa::detail
