#include "run/history_batch.hpp"

#include <cmath>
#include <cstring>
#include <numbers>

namespace jfa::tool {
namespace {

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

// Uniform in (−√3, √3): mean 0, variance 1. Four numbers come from one hash.
void draw_row(std::uint64_t key, std::vector<float>& row) {
  constexpr double kStep = 2 * std::numbers::sqrt3 / 65536;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    bits = i % 4 == 0 ? mix(key + i) : bits >> 16U;
    row[i] = static_cast<float>((static_cast<double>(bits & 0xffffU) - 32767.5) * kStep);
  }
}

// The 2-dimensional view [heads, dim] of row `row` of user `user`.
Tensor row_view(const Tensor& rows, std::int64_t row) {
  Tensor view = rows;
  view.rank = 2;
  view.data = static_cast<std::byte*>(rows.data) + row * rows.strides[0] * size_of(rows.dtype);
  view.shape = {rows.shape[1], rows.shape[2]};
  view.strides = {rows.strides[1], rows.strides[2]};
  return view;
}

}  // namespace

std::byte* BatchMemory::take(std::size_t bytes) {
  if (next_ == blocks_.size()) blocks_.emplace_back();
  Block& block = blocks_[next_++];
  if (block.bytes < bytes) {
    block.data.reset();  // before the new one is there
    block.data = std::make_unique_for_overwrite<std::byte[]>(bytes);
    block.bytes = bytes;
  }
  std::memset(block.data.get(), 0xff, bytes);  // NaN in every type
  return block.data.get();
}

double bytes_of_row(const AttentionShape& shape) {
  const std::int64_t query = shape.heads * (2 * shape.dim + 2 * shape.value_dim);  // with gradients
  const std::int64_t key = shape.kv_heads * (2 * shape.dim + 2 * shape.value_dim);
  const std::int64_t lse = shape.activation == Activation::softmax ? shape.heads : 0;
  return static_cast<double>((query + key) * size_of(shape.dtype) + lse * size_of(DType::float32));
}

HistoryBatch::HistoryBatch(const Histories& histories, UserRange users, const AttentionShape& shape,
                           std::uint64_t seed, std::int64_t rows, DType results,
                           BatchMemory& memory)
    : shape_(shape), rows_(rows) {
  const auto first = static_cast<std::size_t>(users.first);
  for (auto user = first; user <= static_cast<std::size_t>(users.last); ++user) {
    offsets_.push_back(histories.offsets[user] - histories.offsets[first]);
  }
  memory.rewind();
  const DType lse_type = results == DType::float64 ? results : DType::float32;
  q_ = allocate(shape.dtype, shape.heads, shape.dim, memory);
  k_ = allocate(shape.dtype, shape.kv_heads, shape.dim, memory);
  v_ = allocate(shape.dtype, shape.kv_heads, shape.value_dim, memory);
  d_out_ = allocate(shape.dtype, shape.heads, shape.value_dim, memory);
  out_ = allocate(results, shape.heads, shape.value_dim, memory);
  d_q_ = allocate(results, shape.heads, shape.dim, memory);
  d_k_ = allocate(results, shape.kv_heads, shape.dim, memory);
  d_v_ = allocate(results, shape.kv_heads, shape.value_dim, memory);
  if (shape.activation == Activation::softmax) {
    const std::int64_t query_rows = rows_ > 0 ? this->users() * rows_ : offsets_.back();
    const Tensor by_row = allocate(lse_type, shape.heads, 1, memory);
    lse_ = contiguous(by_row.data, lse_type, {shape.heads, query_rows});
  }
  fill(q_, histories, users, seed, 0);
  fill(k_, histories, users, seed, 1);
  fill(v_, histories, users, seed, 2);
  fill(d_out_, histories, users, seed, 3);
}

Tensor HistoryBatch::allocate(DType dtype, std::int64_t heads, std::int64_t dim,
                              BatchMemory& memory) {
  const bool dense = rows_ > 0;
  const std::int64_t rows = dense ? users() * rows_ : offsets_.back();
  const auto bytes = static_cast<std::size_t>(rows * heads * dim * size_of(dtype));
  bytes_ += static_cast<double>(bytes);
  void* data = memory.take(bytes);
  if (dense) return contiguous(data, dtype, {users(), rows_, heads, dim});
  return contiguous(data, dtype, {rows, heads, dim});
}

Tensor HistoryBatch::rows_of(const Tensor& tensor, std::int64_t user) const {
  const auto u = static_cast<std::size_t>(user);
  const bool dense = rows_ > 0;
  const std::size_t row_axis = dense ? 1 : 0;
  const std::int64_t first = dense ? user * tensor.strides[0] : offsets_[u] * tensor.strides[0];
  Tensor rows{static_cast<std::byte*>(tensor.data) + first * size_of(tensor.dtype),
              tensor.dtype,
              3,
              {},
              {}};
  rows.shape = {offsets_[u + 1] - offsets_[u], tensor.shape[row_axis + 1],
                tensor.shape[row_axis + 2]};
  rows.strides = {tensor.strides[row_axis], tensor.strides[row_axis + 1],
                  tensor.strides[row_axis + 2]};
  return rows;
}

void HistoryBatch::fill(const Tensor& tensor, const Histories& histories, UserRange users,
                        std::uint64_t seed, std::uint64_t stream) const {
  if (rows_ > 0) {
    const auto bytes = static_cast<std::size_t>(tensor.elements() * size_of(tensor.dtype));
    std::memset(tensor.data, 0, bytes);
  }
  for (std::int64_t user = 0; user < users.count(); ++user) {
    const Tensor rows = rows_of(tensor, user);
    std::vector<float> values(static_cast<std::size_t>(rows.shape[1] * rows.shape[2]));
    const Tensor source = contiguous(values.data(), DType::float32, {rows.shape[1], rows.shape[2]});
    const std::int64_t first = histories.offsets[static_cast<std::size_t>(users.first + user)];
    for (std::int64_t row = 0; row < rows.shape[0]; ++row) {
      const auto item =
          static_cast<std::uint64_t>(histories.items[static_cast<std::size_t>(first + row)]);
      draw_row(mix(seed ^ mix(4 * item + stream)), values);
      const Tensor target = row_view(rows, row);
      if (tensor.dtype == DType::float32) {
        std::memcpy(target.data, values.data(), values.size() * sizeof(float));
      } else {
        convert(source, target);
      }
    }
  }
}

ForwardArgs HistoryBatch::forward() const {
  ForwardArgs args;
  args.q = q_;
  args.k = k_;
  args.v = v_;
  if (rows_ > 0) {
    args.q_sequences.layout = Layout::dense;
  } else {
    auto* offsets = const_cast<std::int64_t*>(offsets_.data());  // engines only read offsets
    args.q_sequences.offsets =
        contiguous(offsets, DType::int64, {static_cast<std::int64_t>(offsets_.size())});
  }
  args.kv_sequences = args.q_sequences;
  args.activation = shape_.activation;
  args.scale = 1 / std::sqrt(static_cast<double>(shape_.dim));
  args.out_scale = shape_.out_scale;
  args.mask = shape_.mask;
  args.out = out_;
  args.lse = lse_;
  return args;
}

BackwardArgs HistoryBatch::backward() const {
  const ForwardArgs forward_args = forward();
  BackwardArgs args;
  static_cast<AttentionArgs&>(args) = forward_args;
  if (shape_.activation == Activation::softmax) {
    args.out = forward_args.out;
    args.lse = forward_args.lse;
  }
  args.d_out = d_out_;
  args.d_q = d_q_;
  args.d_k = d_k_;
  args.d_v = d_v_;
  return args;
}

}  // namespace jfa::tool
