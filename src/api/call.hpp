// A call after validation: its shape, and on the CPU every sequence resolved to rows and lengths.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/intervals.h"
#include "jfa/attention.hpp"

namespace jfa::detail {

// One query sequence and the key sequence it uses.
struct SequenceView {
  std::int64_t index = 0;     // b, of the query sequence
  std::int64_t q_first = 0;   // first row in q: jagged offsets[b]; dense and broadcast 0
  std::int64_t q_length = 0;  // used rows
  std::int64_t kv_index = 0;  // key sequence: kv_map[b] or b; broadcast keys 0
  std::int64_t k_first = 0;
  std::int64_t k_length = 0;
  std::int64_t out_row =
      0;  // first row counted over all query rows of `out`: jagged offsets[b], else b · rows
  double out_scale = 1.0;  // uniform · per_sequence; per_token scales come on top
  kernels::MaskParameters mask;
};

// What shapes, types and strides tell of a call; no value has been read.
struct CallShape {
  std::int64_t batch = 0;
  std::int64_t kv_batch = 0;
  std::int64_t heads = 0;      // Hq
  std::int64_t kv_heads = 0;   // Hkv
  std::int64_t dim = 0;        // D
  std::int64_t value_dim = 0;  // Dv
  std::int64_t out_rows = 0;   // rows of lse: total_q, or batch · rows
  double scale = 1.0;
};

// The CPU engine works from this alone and never reads offsets.
struct Call : CallShape {
  std::vector<SequenceView> sequences;  // in batch order, empty ones included
};

// A pointer to row 0 of one sequence in one head, and the distance between rows, both in elements
// of T.
template <typename T>
struct RowsView {
  T* data = nullptr;
  std::int64_t row_stride = 0;

  T* row(std::int64_t index) const { return data + index * row_stride; }
};

// Rows of sequence `index` (its first row `first` in a jagged tensor) in `head` of `tensor`, whose
// layout is `layout`. `tensor` is [total, heads, dim], [batch, rows, heads, dim] or [rows, heads,
// dim].
template <typename T>
RowsView<T> rows_of(const Tensor& tensor, Layout layout, std::int64_t index, std::int64_t first,
                    std::int64_t head) {
  T* data = static_cast<T*>(tensor.data);
  if (layout == Layout::dense) {
    return {data + index * tensor.strides[0] + first * tensor.strides[1] + head * tensor.strides[2],
            tensor.strides[1]};
  }
  return {data + first * tensor.strides[0] + head * tensor.strides[1], tensor.strides[0]};
}

// Layout of `out` and its gradient: broadcast queries give one block of rows a sequence.
constexpr Layout out_layout(Layout queries) {
  return queries == Layout::jagged ? Layout::jagged : Layout::dense;
}

// Checks every argument and resolves the sequences; the only place that refuses a call. Throws
// InvalidArgument, InvalidType or Unsupported with the argument's name, its value, what is allowed
// and what to do. Reads offsets, never q, k or v.
Call validate_forward(const ForwardArgs& args);
Call validate_backward(const BackwardArgs& args);
Call validate_inputs(const AttentionArgs& args);  // what forward, backward and plan share
// The same but for values: shapes, types, strides and addresses, for tensors that the host cannot
// read. Allocates nothing.
CallShape validate_forward_shape(const ForwardArgs& args);
CallShape validate_input_shape(const AttentionArgs& args);
// The float64 reference: inputs of any floating type, results float64.
Call validate_reference_forward(const ForwardArgs& args);
Call validate_reference_backward(const BackwardArgs& args);

}  // namespace jfa::detail
