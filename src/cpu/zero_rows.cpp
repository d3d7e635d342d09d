#include "cpu/zero_rows.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "cpu/parallel.hpp"

namespace jfa::cpu {
namespace {

// The complement of `written` in [0, blocks) × [0, rows).
std::vector<RowSpan> gaps(std::vector<RowSpan> written, std::int64_t blocks, std::int64_t rows) {
  std::sort(written.begin(), written.end());
  std::vector<RowSpan> result;
  std::int64_t block = 0;
  std::int64_t row = 0;
  const auto advance_to = [&](std::int64_t to_block, std::int64_t to_row) {
    for (; block < to_block; ++block, row = 0) {
      if (row < rows) result.push_back({block, row, rows - row});
    }
    if (row < to_row) result.push_back({block, row, to_row - row});
    row = std::max(row, to_row);
  };
  for (const RowSpan& span : written) {
    if (span.count == 0) continue;
    advance_to(span.index, span.first);
    row = std::max(row, span.first + span.count);
  }
  if (block < blocks) advance_to(blocks, 0);
  return result;
}

// Zeros an inner block of `count` elements with stride 1.
void zero_run(const Tensor& tensor, std::int64_t offset, std::int64_t count) {
  const auto bytes = size_of(tensor.dtype);
  std::memset(static_cast<std::byte*>(tensor.data) + offset * bytes, 0,
              static_cast<std::size_t>(count * bytes));
}

constexpr std::int64_t kElementsPerTask = 1 << 16;

}  // namespace

void zero_rows_outside(const Tensor& tensor, Layout layout, std::vector<RowSpan> written,
                       const Execution& execution) {
  if (tensor.elements() == 0) return;
  const int workers = thread_count(execution.threads);
  const std::size_t axis = layout == Layout::dense ? 1 : 0;
  const std::int64_t heads = tensor.shape[axis + 1];
  const std::int64_t width = tensor.shape[axis + 2];
  const std::int64_t step = std::max<std::int64_t>(1, kElementsPerTask / (heads * width));
  std::vector<RowSpan> pieces;
  for (const RowSpan& gap : gaps(std::move(written), layout == Layout::dense ? tensor.shape[0] : 1,
                                 tensor.shape[axis])) {
    for (std::int64_t row = 0; row < gap.count; row += step) {
      pieces.push_back({gap.index, gap.first + row, std::min(step, gap.count - row)});
    }
  }
  run_tasks(execution, static_cast<std::int64_t>(pieces.size()), workers, [&](std::int64_t i, int) {
    const RowSpan& piece = pieces[static_cast<std::size_t>(i)];
    for (std::int64_t row = piece.first; row < piece.first + piece.count; ++row) {
      for (std::int64_t head = 0; head < heads; ++head) {
        std::int64_t offset = row * tensor.strides[axis] + head * tensor.strides[axis + 1];
        if (layout == Layout::dense) offset += piece.index * tensor.strides[0];
        zero_run(tensor, offset, width);
      }
    }
  });
}

void fill_lse_outside(const Tensor& lse, std::vector<RowSpan> written, float value) {
  for (const RowSpan& gap : gaps(std::move(written), 1, lse.shape[1])) {
    for (std::int64_t head = 0; head < lse.shape[0]; ++head) {
      float* row = static_cast<float*>(lse.data) + head * lse.strides[0];
      for (std::int64_t i = 0; i < gap.count; ++i) row[(gap.first + i) * lse.strides[1]] = value;
    }
  }
}

void zero_tensor(const Tensor& tensor, const Execution& execution) {
  if (tensor.elements() == 0) return;
  const int workers = thread_count(execution.threads);
  Tensor view = tensor;  // rank 4
  while (view.rank < 4) {
    for (int axis = 3; axis > 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      view.shape[a] = view.shape[a - 1];
      view.strides[a] = view.strides[a - 1];
    }
    view.shape[0] = 1;
    view.strides[0] = 0;
    ++view.rank;
  }
  const std::int64_t rows = view.shape[0] * view.shape[1] * view.shape[2];
  const std::int64_t step = std::max<std::int64_t>(1, kElementsPerTask / view.shape[3]);
  const auto bytes = size_of(view.dtype);
  run_tasks(execution, (rows + step - 1) / step, workers, [&](std::int64_t task, int) {
    for (std::int64_t row = task * step; row < std::min(rows, (task + 1) * step); ++row) {
      const std::int64_t c = row % view.shape[2];
      const std::int64_t b = row / view.shape[2] % view.shape[1];
      const std::int64_t a = row / view.shape[2] / view.shape[1];
      const std::int64_t first = a * view.strides[0] + b * view.strides[1] + c * view.strides[2];
      if (view.strides[3] == 1) {
        zero_run(view, first, view.shape[3]);
        continue;
      }
      for (std::int64_t d = 0; d < view.shape[3]; ++d) {
        std::memset(static_cast<std::byte*>(view.data) + (first + d * view.strides[3]) * bytes, 0,
                    static_cast<std::size_t>(bytes));
      }
    }
  });
}

}  // namespace jfa::cpu
