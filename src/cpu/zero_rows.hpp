// Zeros in the rows that no task writes: slack, holes and sequences without work.
#pragma once

#include <cstdint>
#include <vector>

#include "jfa/attention.hpp"
#include "jfa/tensor.hpp"

namespace jfa::cpu {

// Rows [first, first + count) of block `index` (dense layouts; 0 otherwise).
struct RowSpan {
  std::int64_t index = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;

  bool operator<(const RowSpan& other) const {
    return index != other.index ? index < other.index : first < other.first;
  }
};

// Writes zeros to all rows of `tensor` but those in `written`, which need not be sorted and may
// repeat.
void zero_rows_outside(const Tensor& tensor, Layout layout, std::vector<RowSpan> written,
                       const Execution& execution);

// Writes `value` to the columns of lse [heads, rows] outside `written` (spans with index 0).
void fill_lse_outside(const Tensor& lse, std::vector<RowSpan> written, float value);

// Writes zeros to every element of a tensor with any strides.
void zero_tensor(const Tensor& tensor, const Execution& execution);

}  // namespace jfa::cpu
