// What the copy engine and `tensormap.replace` do with a tensor map: decode and change its bits.
#pragma once

#include <cstdint>

#include "ptxemu/tensor_map.hpp"

namespace ptxemu::tma {

/// Decodes a map that a kernel was given. Throws std::invalid_argument for bytes that no tiled
/// sm_90 map has. Every bit that the copy engine uses is read; the driver's redundant words 8 and 9
/// are not, because `tensormap.replace` does not keep them up to date.
TensorMap decode(const TensorMapBits& bits);

/// What `tensormap.replace` can change. Values are those of the instruction: the rank minus one,
/// sizes, strides in bytes, boxes and element strides as they are, codes as in the PTX manual.
enum class MapField : std::uint8_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  element_type,
  interleave_layout,
  swizzle_mode,
  fill_mode
};

/// Changes one field in place, without validation: a map is only valid when all replacements are
/// done. `ordinal`: the dimension, for global_stride counted from the second one.
void replace(TensorMapBits& bits, MapField field, unsigned ordinal, std::uint64_t value);

}  // namespace ptxemu::tma
