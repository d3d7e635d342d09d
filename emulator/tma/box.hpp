// The walk over one box of a tensor map: which global bytes belong to which shared bytes, with
// bounds, element strides and swizzle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tma/tensor_map.hpp"

namespace ptxemu::tma {

/// Consecutive bytes of a copy. Out of bounds: a load fills the shared bytes (see
/// fill_out_of_bounds), a store skips them.
struct BoxRun {
  std::uint64_t global_address;  // modulo 2^64; meaningless when out of bounds
  std::uint32_t shared_offset;   // address in shared memory, swizzle applied
  std::uint32_t bytes;           // a multiple of the element size
  bool in_bounds;
};

/// Bytes of the box, which is what a load takes from the barrier's transaction count. In shared
/// memory a swizzled box whose rows are narrower than the swizzle width occupies more: its rows
/// start at multiples of that width. Throws std::invalid_argument beyond 228 KiB.
std::uint32_t box_bytes(const TensorMap& map);

/// What the copy does: loads fill the shared bytes beyond the tensor's bounds, stores and
/// reductions skip them, along dimension 0 in units of 16 bytes: a row that ends within a unit is
/// written up to the unit's end (as measured).
enum class Direction : std::uint8_t { load, store };

/// Appends the runs of the box at `coordinates` (map.rank signed element coordinates) in ascending
/// box order. `shared_address`: the instruction's shared address within its CTA. Throws
/// std::invalid_argument for what the copy engine faults on: a rank other than the map's, a shared
/// address that is no multiple of 128, a first coordinate that does not start a 16-byte unit,
/// negative coordinates of a store (all measured on an H200), and for interleaved maps, which are
/// not supported.
void append_box_runs(const TensorMap& map, std::span<const std::int32_t> coordinates,
                     std::uint32_t shared_address, Direction direction, std::vector<BoxRun>& runs);

/// Fills the out-of-bounds part of a load: zeros, or the NaN pattern of the element type.
void fill_out_of_bounds(const TensorMap& map, std::span<std::byte> destination);

/// What the copy engine does to loaded elements besides copying: flushes subnormals (f32_ftz) and
/// rounds to tf32.
void convert_loaded(DataType type, std::span<std::byte> elements);

}  // namespace ptxemu::tma
