#include "api/argument.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

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

// Rows without gaps inside, one every `stride` bytes.
struct RowBlock {
  std::int64_t rows = 0;
  std::int64_t stride = 0;
  std::int64_t width = 0;  // bytes of a row
};

// Views rank 3 [rows, heads, dim] and rank 4 [batch, rows, heads, dim] as rows. False when a row
// has gaps (another tensor may lie in them) or blocks of rows do not follow each other.
bool as_row_block(const Tensor& tensor, RowBlock& block) {
  if (tensor.rank < 3) return false;
  const auto axis = static_cast<std::size_t>(tensor.rank - 3);
  const std::int64_t width = tensor.shape[axis + 1] * tensor.shape[axis + 2];
  if (tensor.strides[axis + 2] != 1 || tensor.strides[axis + 1] != tensor.shape[axis + 2]) {
    return false;
  }
  block = {tensor.shape[axis], tensor.strides[axis] * size_of(tensor.dtype),
           width * size_of(tensor.dtype)};
  if (axis == 0) return true;
  block.rows *= tensor.shape[0];
  return tensor.strides[0] == tensor.shape[1] * tensor.strides[1];
}

// Whether two tensors surely have a byte in common. Neither is empty.
bool certainly_share(const Tensor& first, const Tensor& second) {
  if (first.data == second.data) return true;
  RowBlock a;
  RowBlock b;
  if (!as_row_block(first, a) || !as_row_block(second, b)) return false;
  if (a.stride != b.stride || a.stride < std::max(a.width, b.width)) return false;
  // `second` begins `column` bytes into row `row` of the pattern that `first` begins.
  const auto distance = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(second.data) -
                                                  reinterpret_cast<std::uintptr_t>(first.data));
  std::int64_t row = distance / a.stride;
  if (distance % a.stride < 0) --row;
  const std::int64_t column = distance - row * a.stride;
  const auto rows_meet = [&](std::int64_t shift) { return shift < a.rows && shift + b.rows > 0; };
  return (column < a.width && rows_meet(row)) ||
         (column + b.width > a.stride && rows_meet(row + 1));
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
  std::array<std::pair<std::int64_t, std::int64_t>, 4> axes{};  // stride, extent; by insertion
  std::size_t count = 0;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(tensor.rank); ++axis) {
    if (tensor.shape[axis] <= 1) continue;
    std::size_t place = count++;
    for (; place > 0 && axes[place - 1].first > tensor.strides[axis]; --place) {
      axes[place] = axes[place - 1];
    }
    axes[place] = {tensor.strides[axis], tensor.shape[axis]};
  }
  std::int64_t reach = 1;
  for (const auto& [stride, extent] : std::span(axes).first(count)) {
    if (stride < reach) {
      throw InvalidArgument(
          fmt::format("{}: {} maps several elements to one address and cannot be written; pass a "
                      "tensor with memory of its own",
                      name, describe(tensor)));
    }
    reach += (extent - 1) * stride;
  }
}

void check_disjoint(const Argument& written, const Argument& other) {
  if (!written.tensor.present() || !other.tensor.present()) return;
  if (written.tensor.elements() == 0 || other.tensor.elements() == 0) return;
  if (!certainly_share(written.tensor, other.tensor)) return;
  throw InvalidArgument(fmt::format(
      "{}: shares memory with {}, which the call reads or also writes; pass a separate buffer",
      written.name, other.name));
}

}  // namespace jfa::detail
