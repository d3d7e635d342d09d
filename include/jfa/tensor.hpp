// Views of memory that the caller owns: a data type, a shape and strides. Nothing here allocates or
// copies.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace jfa {

enum class DType : std::uint8_t { float32, float16, bfloat16, float64, int32, int64 };

// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
    case DType::bfloat16:
      return 2;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::float64:
    case DType::int64:
      return 8;
  }
  return 0;
}

// "float32", "bfloat16", … as in NumPy and PyTorch.
std::string_view name_of(DType dtype);

// A strided view of rank 1 to 4. Strides count elements, not bytes, and may be 0 (expanded
// gradients). Rank 0 means "absent". Inputs are never written through `data`.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::float32;
  int rank = 0;
  std::array<std::int64_t, 4> shape{};
  std::array<std::int64_t, 4> strides{};

  bool present() const { return rank > 0; }
  std::int64_t elements() const {
    std::int64_t count = rank > 0 ? 1 : 0;
    for (int axis = 0; axis < rank; ++axis) count *= shape[static_cast<std::size_t>(axis)];
    return count;
  }
};

// A row-major view of `data`. Throws InvalidArgument when the rank is not 1 … 4 or an extent is
// negative.
Tensor contiguous(void* data, DType dtype, std::initializer_list<std::int64_t> shape);

// Copies every element of `from` to `to`, rounding to nearest even where the type of `to` is
// narrower. Same shape, any floating types, any strides. One element at a time: for tests and
// tools. Throws InvalidArgument or InvalidType.
void convert(const Tensor& from, const Tensor& to);

// How the rows of the sequences of one side (queries, or keys and values) lie in memory.
enum class Layout : std::uint8_t {
  jagged,     // [total, heads, dim]; sequence b owns rows offsets[b] … offsets[b+1]
  dense,      // [batch, rows, heads, dim]; every sequence has the same number of rows
  broadcast,  // [rows, heads, dim]; one block of rows serves all sequences of the batch
};

struct Sequences {
  Layout layout = Layout::jagged;
  // jagged only: [batch + 1], int32 or int64, not decreasing; may start above 0, and rows after the
  // last offset are legal.
  Tensor offsets;
  // Optional, one entry a sequence of this side (broadcast keys: one), int32 or int64: only the
  // first n rows of a sequence count, the rest is a hole. Clamped to the sequence.
  Tensor used_lengths;
};

// Writes offsets[0] = 0, offsets[b+1] = offsets[b] + lengths[b] (TorchRec lengths to offsets).
// int32 or int64, both alike. Throws InvalidArgument on a negative length, a wrong size, or a sum
// that the type of the offsets cannot hold.
void offsets_from_lengths(const Tensor& lengths, const Tensor& offsets);

}  // namespace jfa
