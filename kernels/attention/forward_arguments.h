// The by-value argument of a forward kernel, shared by host and device. Tensor maps of q, k, v and
// out come after it.
#pragma once

#include "attention/mask.h"
#include "attention/work.h"

namespace jfa::kernels {

struct ForwardArguments {
  const PlanHeader* plan;
  const TileWork* tiles;  // longest first
  const SequenceRows* sequences;
  const RowGap* gaps;
  WorkCounters* counters;

  // A work head is `packed heads` query heads that share a key head and lie side by side in a tile.
  int heads;              // work heads: query heads / packed heads
  int heads_per_kv_head;  // work heads that share a key head

  void* out;  // for the gaps; strides in elements, multiples of 8 like the base address in bytes
  long long out_row_stride;
  long long out_head_stride;
  int query_heads;
  int value_dim;  // columns of out
  long long lse_head_stride;
  float* lse;  // [query heads, out_rows], or null

  float scale;  // softmax: scale · log2(e)
  float out_scale;
  float leaky_slope;
  int out_scale_per_token;  // out_scales has one factor a row of out, else one a sequence
  const float* out_scales;  // multiplied with out_scale
  long long out_scales_stride;

  MaskArguments mask;
};

}  // namespace jfa::kernels
