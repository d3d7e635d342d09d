// Tile sizes of the Hopper forward by head dimension, and what a launch needs to know of them.
// Shared by host and device.
#pragma once

namespace jfa::kernels::sm90 {

struct ForwardShape {
  int dim;        // columns of q and k in shared memory: a multiple of 16, zero-filled beyond D
  int value_dim;  // of v and out
  int keys;       // key rows of one block
  int stages;     // K and V blocks in flight
  int groups;     // compute warpgroups, 64 query rows each
  int query_stages = 1;  // tiles of queries in flight: 2 where they fit

  constexpr bool operator==(const ForwardShape&) const = default;
};

constexpr int kForwardGroupRows = 64;

constexpr int padded_dim(int dim) {
  return (dim + 15) / 16 * 16;
}

// Key sequences of this average length are worth larger key blocks: steps have less overhead, tiles
// more.
constexpr int kLongKeys = 1536;

// D and Dv: multiples of 8 up to 256. Small heads do little arithmetic a step: a third warpgroup
// fills the tensor core. docs/hopper_forward.md has the measurements.
constexpr ForwardShape forward_shape(int dim, int value_dim, bool long_keys) {
  const int d = padded_dim(dim), dv = padded_dim(value_dim);
  const int widest = d > dv ? d : dv;
  if (widest <= 64) return {d, dv, 96, 4, 3, 2};
  if (widest <= 128)
    return long_keys ? ForwardShape{d, dv, 144, 2, 2} : ForwardShape{d, dv, 128, 2, 2, 2};
  if (widest <= 192) return {d, dv, 80, 2, 2};
  return {d, dv, 48, 2, 2};
}

// A service warpgroup and the compute warpgroups.
constexpr int forward_threads(const ForwardShape& shape) {
  return 128 * (1 + shape.groups);
}

// Query heads of one group that share a tile's rows, so that grouped heads fill tiles and load keys
// once: the largest divisor of `group` that leaves at most 4 of a warpgroup's 64 rows unused.
constexpr int packed_heads(int group) {
  for (int heads = group < kForwardGroupRows ? group : kForwardGroupRows; heads > 1; --heads) {
    if (group % heads == 0 && kForwardGroupRows / heads * heads >= kForwardGroupRows - 4) {
      return heads;
    }
  }
  return 1;
}

// Tokens (query rows of each packed head) of a tile; each warpgroup has an equal part of them.
constexpr int tile_tokens(const ForwardShape& shape, int packed) {
  return shape.groups * (kForwardGroupRows / packed);
}

// Dynamic shared memory of the kernel, bytes.
constexpr int forward_shared_bytes(const ForwardShape& shape) {
  return shape.groups * kForwardGroupRows * (shape.query_stages * shape.dim + shape.value_dim) *
             2 +                                                          // queries, output
         shape.stages * shape.keys * (shape.dim + shape.value_dim) * 2 +  // keys, values
         shape.groups * kForwardGroupRows * 16 +
         1024;  // keys of rows; work items, barriers
}

}  // namespace jfa::kernels::sm90
