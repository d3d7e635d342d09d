#include "gpu/tensor_maps.hpp"

#include <algorithm>

#include "tlx/layout.h"

namespace jfa::gpu {
namespace {

runtime::TensorSwizzle swizzle_of(tlx::Swizzle swizzle) {
  switch (swizzle) {
    case tlx::Swizzle::b128:
      return runtime::TensorSwizzle::bytes128;
    case tlx::Swizzle::b64:
      return runtime::TensorSwizzle::bytes64;
    case tlx::Swizzle::b32:
      return runtime::TensorSwizzle::bytes32;
    default:
      return runtime::TensorSwizzle::none;
  }
}

}  // namespace

runtime::TensorMap ragged_map(const runtime::Context& context, const Rows& rows, DType dtype,
                              int padded_dim, int box_rows, int box_heads, const void* fallback) {
  constexpr std::uint64_t kRows = std::uint64_t{1} << 30;
  constexpr std::uint64_t kShifts = std::uint64_t{1} << 31;
  constexpr std::uint64_t kShift = std::uint64_t{1} << 35;  // bytes
  const auto row_bytes = static_cast<std::uint64_t>(rows.row_stride) * 2;
  const tlx::Swizzle swizzle = tlx::widest_swizzle(static_cast<unsigned>(padded_dim), 2);
  runtime::TensorMapShape shape;
  shape.element =
      dtype == DType::float16 ? runtime::TensorElement::f16 : runtime::TensorElement::bf16;
  shape.rank = 5;
  shape.size = {static_cast<std::uint64_t>(rows.dim), kRows, static_cast<std::uint64_t>(rows.heads),
                kShifts, kShifts};
  shape.stride_bytes = {row_bytes, static_cast<std::uint64_t>(rows.head_stride) * 2,
                        kShift - row_bytes, row_bytes};
  shape.box = {static_cast<std::uint32_t>(swizzle) / 2, static_cast<std::uint32_t>(box_rows),
               static_cast<std::uint32_t>(box_heads), 1, 1};
  shape.swizzle = swizzle_of(swizzle);
  shape.l2_promotion = runtime::TensorPromotion::bytes128;
  return context.tensor_map(rows.data != nullptr ? rows.data : fallback, shape);
}

}  // namespace jfa::gpu
