// Ragged tensor maps of a call's tensors (kernels/tlx/tma.h).
#pragma once

#include "attention/sm90/forward_shape.h"
#include "gpu/rows.hpp"
#include "jfa/runtime.hpp"

namespace jfa::gpu {

// A map whose copies take `box_rows` rows of `box_heads` heads, and as many columns as one swizzle
// spans in a tile that is `padded_dim` columns wide. `fallback`: an aligned device address for a
// tensor without memory.
runtime::TensorMap ragged_map(const runtime::Context& context, const Rows& rows, DType dtype,
                              int padded_dim, int box_rows, int box_heads, const void* fallback);

}  // namespace jfa::gpu
