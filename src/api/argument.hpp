// Checks of one tensor argument. Every message starts with the argument's name and says what is
// wrong, what is allowed and what to do.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "jfa/tensor.hpp"

namespace jfa::detail {

struct Argument {
  std::string_view name;
  Tensor tensor;
};

// One axis of an expected shape.
struct Extent {
  std::string_view name;   // as in the documentation: "total_q", "Hq", "D"
  std::int64_t size = -1;  // −1: any
  enum Rule : std::uint8_t { exactly, at_least, or_one } rule = exactly;
};

std::string describe(const Tensor& tensor);  // "float32 [3, 4] with strides [4, 1]"
std::string shape_of(const Tensor& tensor);  // "[3, 4]"
std::string list_of(std::span<const DType> dtypes);

// Rank 1 … 4, extents and strides not negative, byte offsets within 63 bits, a base address that
// exists and is a multiple of the element size.
void check_memory(Argument argument);

// `advice` ends the message: what to do instead.
void check_type(Argument argument, std::span<const DType> allowed, std::string_view advice);
void check_shape(Argument argument, std::initializer_list<Extent> expected);
void check_last_stride(Argument argument);

// No two elements share memory (an expanded tensor cannot be written).
void check_writable(Argument argument);

// Refuses a result that certainly shares memory with another argument: the same base address, or
// rows of the same stride whose columns meet. Views that merely interleave pass.
void check_disjoint(const Argument& written, const Argument& other);

}  // namespace jfa::detail
