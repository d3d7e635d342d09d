#include "gpu/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "jfa/error.hpp"

namespace jfa::gpu {
namespace {

// Tensor maps step in multiples of 16 bytes.
constexpr std::int64_t kStep = 8;
constexpr std::uintptr_t kAlignment = 16;
// The ragged view needs a row stride below 2³⁵ bytes (kernels/tlx/tma.h).
constexpr std::int64_t kMostStride = std::int64_t{1} << 34;

constexpr std::int64_t kAnyDistance = -1;

struct Axes {
  std::int64_t batch, rows;
  std::int64_t batch_stride, row_stride, head_stride;
};

Axes axes_of(const Tensor& tensor) {
  const auto& s = tensor.strides;
  if (tensor.rank == 4) return {tensor.shape[0], tensor.shape[1], s[0], s[1], s[2]};
  return {1, tensor.shape[0], 0, s[0], s[1]};
}

bool is_step(std::int64_t stride) {
  return stride > 0 && stride % kStep == 0 && stride < kMostStride;
}

// Fills strides and distance from the tensor's own; returns why that does not work, else null.
// `distance`: what sequence_rows has to be.
const char* take_as_it_lies(const Axes& axes, std::int64_t distance, Rows& rows) {
  rows.row_stride = axes.row_stride;
  rows.head_stride = axes.head_stride;
  const bool dense = rows.tensor->rank == 4;
  // Strides of axes with one entry mean nothing.
  const std::int64_t compact = rows.heads * rows.dim;
  if (rows.heads == 1) rows.head_stride = kStep;
  if (axes.rows <= 1) rows.row_stride = axes.batch > 1 ? axes.batch_stride : compact;
  if (reinterpret_cast<std::uintptr_t>(rows.tensor->data) % kAlignment != 0) {
    return "its address is no multiple of 16 bytes";
  }
  if (!is_step(rows.row_stride)) return "its row stride is no positive multiple of 16 bytes";
  if (!is_step(rows.head_stride)) return "its head stride is no positive multiple of 16 bytes";
  if (!dense) return nullptr;
  rows.sequence_rows = axes.rows;
  if (axes.batch > 1 && axes.rows > 1) {
    if (axes.batch_stride % rows.row_stride != 0)
      return "its batch stride is no multiple of its row stride";
    rows.sequence_rows = axes.batch_stride / rows.row_stride;
  }
  if (distance != kAnyDistance && axes.batch > 1 && rows.sequence_rows != distance) {
    return "its sequences lie another number of rows apart than those it goes with";
  }
  return nullptr;
}

void take_a_copy(std::int64_t distance, Rows& rows) {
  rows.data = nullptr;
  rows.row_stride = rows.heads * rows.dim;
  rows.head_stride = rows.dim;
  if (rows.tensor->rank == 4) {
    rows.sequence_rows = distance == kAnyDistance ? rows.tensor->shape[1] : distance;
  }
}

Rows rows_of(std::string_view name, const Tensor& tensor, std::int64_t distance,
             Rows::Sign sign = Rows::Sign::kept) {
  const Axes axes = axes_of(tensor);
  Rows rows;
  rows.tensor = &tensor;
  rows.data = tensor.data;
  rows.heads = tensor.shape[static_cast<std::size_t>(tensor.rank) - 2];
  rows.dim = tensor.shape[static_cast<std::size_t>(tensor.rank) - 1];
  rows.copied = take_as_it_lies(axes, distance, rows);
  if (sign != Rows::Sign::kept) {
    rows.sign = sign;
    rows.copied = "softmax takes a positive scale, so that another sign goes into the queries";
  }
  if (rows.copied != nullptr) take_a_copy(distance, rows);
  // Where there is nothing to read any address will do, but that of a tensor map is aligned.
  if (axes.batch == 0 || axes.rows == 0) {
    rows.copied = nullptr;
    rows.data = nullptr;
    take_a_copy(distance, rows);
    return rows;
  }
  rows.rows = tensor.rank == 4 ? (axes.batch - 1) * rows.sequence_rows + axes.rows : axes.rows;
  if (rows.rows > kMostRows) {
    throw Unsupported(fmt::format(
        "{}: {} rows; at most 2^29 − 1 are supported on GPUs; split the batch", name, rows.rows));
  }
  return rows;
}

// The kernel finds the largest score of a row before it applies the scale.
Rows::Sign query_sign(const AttentionArgs& args) {
  if (args.activation != Activation::softmax || args.scale.value_or(1) > 0) return Rows::Sign::kept;
  return args.scale == 0 ? Rows::Sign::zero : Rows::Sign::flipped;
}

}  // namespace

InputRows input_rows(const AttentionArgs& args) {
  InputRows rows{rows_of("q", args.q, kAnyDistance, query_sign(args)),
                 rows_of("k", args.k, kAnyDistance), rows_of("v", args.v, kAnyDistance)};
  if (args.k.rank == 4 && rows.k.sequence_rows != rows.v.sequence_rows) {
    // A copy can have any distance that keeps sequences apart.
    const auto own = [](const Rows& side) {
      return side.copied == nullptr ? side.sequence_rows : 0;
    };
    const std::int64_t distance = std::max({args.k.shape[1], own(rows.k), own(rows.v)});
    rows.k = rows_of("k", args.k, distance);
    rows.v = rows_of("v", args.v, distance);
  }
  return rows;
}

Rows output_rows(const ForwardArgs& args) {
  return rows_of("out", args.out, args.out.rank == 4 ? args.out.shape[1] : kAnyDistance);
}

}  // namespace jfa::gpu
