#include "jfa/tensor.hpp"

#include <fmt/format.h>

#include <limits>

#include "api/argument.hpp"
#include "api/scalar.hpp"
#include "jfa/error.hpp"

namespace jfa {

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float64:
      return "float64";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
  }
  return "unknown";
}

Tensor contiguous(void* data, DType dtype, std::initializer_list<std::int64_t> shape) {
  if (shape.size() < 1 || shape.size() > 4) {
    throw InvalidArgument(
        fmt::format("shape: rank {} is not allowed; tensors have rank 1 to 4", shape.size()));
  }
  Tensor tensor{data, dtype, static_cast<int>(shape.size()), {}, {}};
  std::size_t axis = 0;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      throw InvalidArgument(fmt::format("shape: extent {} of axis {} is negative", extent, axis));
    }
    tensor.shape[axis++] = extent;
  }
  std::int64_t stride = 1;
  while (axis-- > 0) {
    tensor.strides[axis] = stride;
    if (tensor.shape[axis] > 0 && __builtin_mul_overflow(stride, tensor.shape[axis], &stride)) {
      throw InvalidArgument(
          fmt::format("shape: {} has more than 2^63 elements", detail::shape_of(tensor)));
    }
  }
  return tensor;
}

void offsets_from_lengths(const Tensor& lengths, const Tensor& offsets) {
  using detail::integer_at;
  constexpr std::array kInteger = {DType::int32, DType::int64};
  detail::check_memory({"lengths", lengths});
  detail::check_memory({"offsets", offsets});
  detail::check_type({"lengths", lengths}, kInteger, "cast it");
  detail::check_type({"offsets", offsets}, kInteger, "cast it");
  detail::check_shape({"lengths", lengths}, {{"batch"}});
  const std::int64_t batch = lengths.shape[0];
  detail::check_shape({"offsets", offsets}, {{"batch + 1", batch + 1}});
  detail::check_writable({"offsets", offsets});
  detail::check_disjoint({"offsets", offsets}, {"lengths", lengths});
  const std::int64_t limit = offsets.dtype == DType::int32
                                 ? std::numeric_limits<std::int32_t>::max()
                                 : std::numeric_limits<std::int64_t>::max();
  // Everything is checked before anything is written.
  std::int64_t total = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = integer_at(lengths, b * lengths.strides[0]);
    if (length < 0) {
      throw InvalidArgument(fmt::format("lengths[{}] = {} is negative", b, length));
    }
    if (length > limit - total) {
      throw InvalidArgument(
          fmt::format("offsets: the sum of lengths exceeds {} at sequence {}; use int64 offsets",
                      name_of(offsets.dtype), b));
    }
    total += length;
  }
  const auto write = [&](std::int64_t b, std::int64_t value) {
    if (offsets.dtype == DType::int32) {
      static_cast<std::int32_t*>(offsets.data)[b * offsets.strides[0]] =
          static_cast<std::int32_t>(value);
    } else {
      static_cast<std::int64_t*>(offsets.data)[b * offsets.strides[0]] = value;
    }
  };
  total = 0;
  write(0, 0);
  for (std::int64_t b = 0; b < batch; ++b) {
    total += integer_at(lengths, b * lengths.strides[0]);
    write(b + 1, total);
  }
}

}  // namespace jfa
