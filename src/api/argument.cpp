#include "api/argument.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

#include "jfa/error.hpp"

namespace jfa::detail {
namespace {

std::span<const std::int64_t> shape_span(const Tensor& tensor) {
  return {tensor.shape.data(), static_cast<std::size_t>(tensor.rank)};
}

std::span<const std::int64_t> stride_span(const Tensor& tensor) {
  return {tensor.strides.data(), static_cast<std::size_t>(tensor.rank)};
}

bool is_contiguous(const Tensor& tensor) {
  std::int64_t expected = 1;
  for (std::size_t axis = static_cast<std::size_t>(tensor.rank); axis-- > 0;) {
    if (tensor.strides[axis] != expected) return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

// Elements from the first to one past the last; false when that does not fit into 62 bits of bytes.
bool span_in_elements(const Tensor& tensor, std::int64_t& span) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 62;
  span = 1;
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(tensor.rank); ++axis) {
    if (tensor.shape[axis] == 0) {
      span = 0;
      return true;
    }
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.shape[axis] - 1, tensor.strides[axis], &reach)) return false;
    if (__builtin_add_overflow(span, reach, &span)) return false;
    if (__builtin_mul_overflow(count, tensor.shape[axis], &count)) return false;
  }
  return span <= kLimit / size_of(tensor.dtype) && count <= kLimit / size_of(tensor.dtype);
}

std::string expected_shape(std::initializer_list<Extent> extents) {
  std::string text = "[";
  for (const Extent& extent : extents) {
    if (text.size() > 1) text += ", ";
    text += extent.name;
    if (extent.size < 0) continue;
    constexpr std::array<std::string_view, 3> kRelation = {" = ", " ≥ ", " = 1 or "};
    text += fmt::format("{}{}", kRelation.at(extent.rule), extent.size);
  }
  return text + "]";
}

bool matches(const Extent& extent, std::int64_t size) {
  if (extent.size < 0 || size == extent.size) return true;
  if (extent.rule == Extent::or_one) return size == 1;
  return extent.rule == Extent::at_least && size > extent.size;
}

}  // namespace

std::string shape_of(const Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(shape_span(tensor), ", "));
}

std::string describe(const Tensor& tensor) {
  if (!tensor.present()) return "absent";
  std::string text = fmt::format("{} {}", name_of(tensor.dtype), shape_of(tensor));
  if (!is_contiguous(tensor)) {
    text += fmt::format(" with strides [{}]", fmt::join(stride_span(tensor), ", "));
  }
  return text;
}

std::string list_of(std::span<const DType> dtypes) {
  std::string text;
  for (const DType dtype : dtypes) {
    if (!text.empty()) text += ", ";
    text += name_of(dtype);
  }
  return text;
}

void check_memory(Argument argument) {
  const auto& [name, tensor] = argument;
  if (tensor.rank < 1 || tensor.rank > 4) {
    throw InvalidArgument(
        fmt::format("{}: rank {} is not allowed; tensors have rank 1 to 4 (0 means absent)", name,
                    tensor.rank));
  }
  for (const std::int64_t extent : shape_span(tensor)) {
    if (extent < 0) {
      throw InvalidArgument(
          fmt::format("{}: shape {} has a negative extent", name, shape_of(tensor)));
    }
  }
  for (const std::int64_t stride : stride_span(tensor)) {
    if (stride < 0) {
      throw InvalidArgument(
          fmt::format("{}: strides [{}] are not supported, none may be negative; copy the tensor "
                      "to a row-major buffer",
                      name, fmt::join(stride_span(tensor), ", ")));
    }
  }
  std::int64_t span = 0;
  if (!span_in_elements(tensor, span)) {
    throw InvalidArgument(fmt::format(
        "{}: {} spans more than 2^62 bytes; check its shape and strides", name, describe(tensor)));
  }
  if (span > 0 && tensor.data == nullptr) {
    throw InvalidArgument(fmt::format("{}: data is null but {} has {} elements; pass its address",
                                      name, describe(tensor), tensor.elements()));
  }
  if (reinterpret_cast<std::uintptr_t>(tensor.data) %
          static_cast<std::uintptr_t>(size_of(tensor.dtype)) !=
      0) {
    throw InvalidArgument(fmt::format(
        "{}: address {} is not a multiple of the {} bytes of one {}; copy it to an aligned buffer",
        name, tensor.data, size_of(tensor.dtype), name_of(tensor.dtype)));
  }
}

void check_type(Argument argument, std::span<const DType> allowed, std::string_view advice) {
  const auto& [name, tensor] = argument;
  if (std::find(allowed.begin(), allowed.end(), tensor.dtype) != allowed.end()) return;
  throw InvalidType(fmt::format("{}: type {} is not supported here, only {}; {}", name,
                                name_of(tensor.dtype), list_of(allowed), advice));
}

void check_shape(Argument argument, std::initializer_list<Extent> expected) {
  const auto& [name, tensor] = argument;
  bool good = static_cast<std::size_t>(tensor.rank) == expected.size();
  std::size_t axis = 0;
  for (const Extent& extent : expected) good = good && matches(extent, tensor.shape[axis++]);
  if (good) return;
  throw InvalidArgument(fmt::format("{}: shape {} does not fit; expected {}", name,
                                    shape_of(tensor), expected_shape(expected)));
}

void check_last_stride(Argument argument) {
  const auto& [name, tensor] = argument;
  const auto last = static_cast<std::size_t>(tensor.rank - 1);
  if (tensor.strides[last] == 1 || tensor.shape[last] <= 1 || tensor.elements() == 0) return;
  throw InvalidArgument(
      fmt::format("{}: the last stride of {} is {}, it must be 1 (the others are free); copy the "
                  "tensor so that the elements of a row are adjacent",
                  name, describe(tensor), tensor.strides[last]));
}

void check_writable(Argument argument) {
  const auto& [name, tensor] = argument;
  if (tensor.elements() <= 1) return;
  // In order of stride, each axis must step over everything that the smaller ones reach.
  std::multimap<std::int64_t, std::int64_t> extent_of_stride;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(tensor.rank); ++axis) {
    if (tensor.shape[axis] > 1) extent_of_stride.emplace(tensor.strides[axis], tensor.shape[axis]);
  }
  std::int64_t reach = 1;
  for (const auto& [stride, extent] : extent_of_stride) {
    if (stride < reach) {
      throw InvalidArgument(
          fmt::format("{}: {} maps several elements to one address and cannot be written; pass a "
                      "tensor with memory of its own",
                      name, describe(tensor)));
    }
    reach += (extent - 1) * stride;
  }
}

void check_disjoint(Argument written, Argument other) {
  if (!written.tensor.present() || !other.tensor.present()) return;
  if (written.tensor.elements() == 0 || other.tensor.elements() == 0) return;
  // Bytes of one row (everything below the outermost axis) and of all rows.
  const auto row_bytes = [](const Tensor& tensor) {
    std::int64_t bytes = size_of(tensor.dtype);
    for (std::size_t axis = 1; axis < static_cast<std::size_t>(tensor.rank); ++axis) {
      bytes += (tensor.shape[axis] - 1) * tensor.strides[axis] * size_of(tensor.dtype);
    }
    return bytes;
  };
  const auto first = reinterpret_cast<std::uintptr_t>(written.tensor.data);
  const auto second = reinterpret_cast<std::uintptr_t>(other.tensor.data);
  bool shared = first == second;
  const std::int64_t stride = written.tensor.strides[0] * size_of(written.tensor.dtype);
  if (!shared && stride > 0 && stride == other.tensor.strides[0] * size_of(other.tensor.dtype)) {
    const auto distance = static_cast<std::int64_t>(second - first);
    const std::int64_t lower_row =
        distance >= 0 ? distance / stride : -((-distance + stride - 1) / stride);
    const std::int64_t column = distance - lower_row * stride;  // of `other` in a row of `written`
    // `other` row r starts in row r + lower_row of `written`, and may reach into the next one.
    const auto rows_meet = [&](std::int64_t shift) {
      return shift < written.tensor.shape[0] && shift + other.tensor.shape[0] > 0;
    };
    shared = (column < row_bytes(written.tensor) && rows_meet(lower_row)) ||
             (column + row_bytes(other.tensor) > stride && rows_meet(lower_row + 1));
  }
  if (!shared) return;
  throw InvalidArgument(fmt::format(
      "{}: shares memory with {}, which the call reads or also writes; pass a separate buffer",
      written.name, other.name));
}

}  // namespace jfa::detail
