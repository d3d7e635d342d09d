// Tile sizes of the Hopper forward by head dimension, and what a launch needs to know of them.
// Shared by host and device.
#pragma once

namespace jfa::kernels::sm90 {

struct ForwardShape {
  int dim;        // columns of q and k in shared memory: a multiple of 16, zero-filled beyond D
  int value_dim;  // of v and out
  int keys;       // key rows of one block
  int stages;     // K and V blocks in flight

  constexpr bool operator==(const ForwardShape&) const = default;
};

constexpr int kForwardTileRows = 128;  // query rows of a tile, 64 a compute warpgroup
constexpr int kForwardThreads = 384;   // a service and two compute warpgroups
constexpr int kForwardGroupRows = 64;

constexpr int padded_dim(int dim) {
  return (dim + 15) / 16 * 16;
}

// D and Dv: multiples of 8 up to 256.
constexpr ForwardShape forward_shape(int dim, int value_dim) {
  const int widest = padded_dim(dim > value_dim ? dim : value_dim);
  const int keys = widest <= 128 ? 128 : widest <= 192 ? 80 : 48;
  const int stages = widest <= 64 ? 4 : widest <= 96 ? 3 : 2;
  return {padded_dim(dim), padded_dim(value_dim), keys, stages};
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

// Tokens (query rows of each packed head) of a tile; half of them belong to each warpgroup.
constexpr int tile_tokens(int packed) {
  return 2 * (kForwardGroupRows / packed);
}

// Dynamic shared memory of the kernel, bytes.
constexpr int forward_shared_bytes(const ForwardShape& shape) {
  const int widest = shape.dim > shape.value_dim ? shape.dim : shape.value_dim;
  return 2 * kForwardTileRows * widest * 2 +                              // queries, output
         shape.stages * shape.keys * (shape.dim + shape.value_dim) * 2 +  // keys, values
         3072;  // keys of rows, work items, barriers
}

}  // namespace jfa::kernels::sm90
