// How q, k, v and out lie before a kernel: rows that its tensor maps reach, or an aligned copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/call.hpp"

namespace jfa::gpu {

// Rows of a tensor that a kernel may have, so that row numbers of two sequences add up in an int.
constexpr std::int64_t kMostRows = (std::int64_t{1} << 29) - 1;

// [rows, heads, dim] of 16-bit elements. Row i of sequence b of a dense tensor is row
// b · sequence_rows + i.
struct Rows {
  const Tensor* tensor = nullptr;  // the caller's
  void* data = nullptr;            // the caller's, or scratch memory when `copied`
  std::int64_t row_stride = 0;     // elements, like all strides; multiples of 8
  std::int64_t head_stride = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  std::int64_t rows = 0;
  std::int64_t sequence_rows = 0;  // dense: rows from one sequence to the next; else 0
  const char* copied = nullptr;    // why the tensor goes through an aligned copy; null: it does not
  // How the kernel wants the elements: as they are, with the other sign, or as zeros.
  enum class Sign : std::uint8_t { kept, flipped, zero } sign = Sign::kept;

  // Scratch memory of the copy.
  std::size_t copy_bytes() const {
    return copied == nullptr ? 0 : static_cast<std::size_t>(rows * heads * dim) * 2;
  }
};

struct InputRows {
  Rows q, k, v;  // k and v have their rows at the same places
};

// Throws Unsupported when a tensor has more rows than kMostRows. Head dimensions are multiples
// of 8.
InputRows input_rows(const AttentionArgs& args);
Rows output_rows(const ForwardArgs& args);

}  // namespace jfa::gpu
