// One element of a tensor as float64 or int64: what validation, the reference and the checks read
// and write with. Engines have their own, faster ways.
#pragma once

#include <array>
#include <cstdint>

#include "jfa/tensor.hpp"

namespace jfa::detail {

constexpr bool is_floating(DType dtype) {
  return dtype != DType::int32 && dtype != DType::int64;
}

// Position of element `index` (one entry an axis) in elements from tensor.data.
inline std::int64_t element_offset(const Tensor& tensor, const std::array<std::int64_t, 4>& index) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    offset += index[a] * tensor.strides[a];
  }
  return offset;
}

// Calls visit(index) for every element, the last axis fastest. Nothing when one axis is empty.
template <typename Visit>
void for_each_index(const Tensor& tensor, Visit visit) {
  if (tensor.elements() == 0) return;
  std::array<std::int64_t, 4> extent = {1, 1, 1, 1};
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(tensor.rank); ++axis) {
    extent[axis] = tensor.shape[axis];
  }
  std::array<std::int64_t, 4> index{};
  for (index[0] = 0; index[0] < extent[0]; ++index[0]) {
    for (index[1] = 0; index[1] < extent[1]; ++index[1]) {
      for (index[2] = 0; index[2] < extent[2]; ++index[2]) {
        for (index[3] = 0; index[3] < extent[3]; ++index[3]) visit(index);
      }
    }
  }
}

// The element `offset` elements from tensor.data. real_at: any type; integer_at: int32 and int64.
double real_at(const Tensor& tensor, std::int64_t offset);
std::int64_t integer_at(const Tensor& tensor, std::int64_t offset);

// Rounds to nearest even into a floating type; integer types truncate.
void store_at(const Tensor& tensor, std::int64_t offset, double value);

inline double real_at(const Tensor& tensor, const std::array<std::int64_t, 4>& index) {
  return real_at(tensor, element_offset(tensor, index));
}
inline void store_at(const Tensor& tensor, const std::array<std::int64_t, 4>& index, double value) {
  store_at(tensor, element_offset(tensor, index), value);
}

// IEEE binary16 and bfloat16 bit patterns.
float float_from_half(std::uint16_t bits);
float float_from_bfloat16(std::uint16_t bits);
std::uint16_t half_from_float(float value);
std::uint16_t bfloat16_from_float(float value);

}  // namespace jfa::detail
