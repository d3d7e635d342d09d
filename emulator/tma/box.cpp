// The box walk: an odometer over the outer dimensions, and per innermost row the split at the
// bounds and at swizzle chunks.
#include "tma/box.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "numeric/convert.hpp"

namespace ptxemu::tma {
namespace {

constexpr std::uint32_t kChunkBytes = 16;
constexpr unsigned kSharedAlignment = 128;
constexpr std::uint64_t kMaxBoxBytes = 228 * 1024;

/// Elements that the traversal visits along dimension d. The innermost dimension has no element
/// stride.
std::uint32_t visited(const TensorMap& map, unsigned d) {
  if (d == 0) return map.box[0];
  return (map.box[d] + map.element_stride[d] - 1) / map.element_stride[d];
}

/// XORs the chunk index within a swizzle row with the row's index; both come from the address
/// itself.
std::uint32_t swizzled(std::uint32_t address, Swizzle swizzle) {
  const std::uint32_t mask = (1u << static_cast<unsigned>(swizzle)) - 1;
  return address ^ (((address >> 7) & mask) << 4);
}

/// Distance of the rows of a box in shared memory: a swizzled box occupies whole swizzle rows.
std::uint32_t row_pitch(const TensorMap& map) {
  return map.swizzle == Swizzle::none ? map.box[0] * element_bytes(map.type)
                                      : 16u << static_cast<unsigned>(map.swizzle);
}

void check(const TensorMap& map, std::span<const std::int32_t> coordinates,
           std::uint32_t shared_address, Direction direction) {
  if (coordinates.size() != map.rank) {
    throw std::invalid_argument("tensor copy has " + std::to_string(coordinates.size()) +
                                " coordinates, but its tensor map has rank " +
                                std::to_string(map.rank));
  }
  if (map.interleave != Interleave::none) {
    throw std::invalid_argument(
        "tensor copy with an interleaved tensor map is not supported; use interleave none");
  }
  if (shared_address % kSharedAlignment != 0) {
    throw std::invalid_argument("tensor copy: shared address " + std::to_string(shared_address) +
                                " is not a multiple of 128");
  }
  const std::int64_t first_byte = std::int64_t{coordinates[0]} * element_bytes(map.type);
  if (first_byte % std::int64_t{kChunkBytes} != 0) {
    throw std::invalid_argument("tensor copy: coordinate 0 is " + std::to_string(coordinates[0]) +
                                ", i.e. byte " + std::to_string(first_byte) +
                                "; it must be a multiple of 16 bytes");
  }
  for (unsigned d = 0; d < map.rank && direction == Direction::store; ++d) {
    if (coordinates[d] < 0) {
      throw std::invalid_argument("tensor store or reduction: coordinate " + std::to_string(d) +
                                  " is " + std::to_string(coordinates[d]) +
                                  "; only loads may start before the tensor");
    }
  }
}

class BoxWalk {
 public:
  BoxWalk(const TensorMap& map, std::span<const std::int32_t> coordinates,
          std::uint32_t shared_address, Direction direction, std::vector<BoxRun>& runs)
      : map_(map),
        coordinates_(coordinates),
        shared_(shared_address),
        runs_(runs),
        element_(element_bytes(map.type)),
        inner_size_(static_cast<std::int64_t>(map.size[0])),
        row_pitch_(row_pitch(map)) {
    if (direction == Direction::store) {
      // The copy engine writes whole 16-byte units: a tensor whose rows end within one is exceeded.
      const std::int64_t unit = kChunkBytes / element_;
      inner_size_ = (inner_size_ + unit - 1) / unit * unit;
    }
  }

  void dimension(unsigned d, std::uint64_t address, bool in_bounds) {
    if (d == 0) return row(address, in_bounds);
    for (std::uint32_t i = 0; i < visited(map_, d); ++i) {
      const std::int64_t index =
          coordinates_[d] + static_cast<std::int64_t>(i) * map_.element_stride[d];
      const bool inside = index >= 0 && static_cast<std::uint64_t>(index) < map_.size[d];
      dimension(d - 1, address + static_cast<std::uint64_t>(index) * map_.stride[d],
                in_bounds && inside);
    }
  }

 private:
  /// One row of the box: at most an out-of-bounds head, an in-bounds part and an out-of-bounds
  /// tail.
  void row(std::uint64_t address, bool in_bounds) {
    const std::int64_t first = coordinates_[0];
    const std::int64_t end = first + map_.box[0];
    const std::uint32_t row_start = shared_;
    const std::int64_t inside_first = in_bounds ? std::clamp<std::int64_t>(0, first, end) : end;
    const std::int64_t inside_end = in_bounds ? std::clamp(inner_size_, inside_first, end) : end;
    piece(address, first, inside_first, false);
    piece(address, inside_first, inside_end, true);
    piece(address, inside_end, end, false);
    shared_ = row_start + row_pitch_;
  }

  void piece(std::uint64_t row_address, std::int64_t first, std::int64_t end, bool in_bounds) {
    auto bytes = static_cast<std::uint32_t>((end - first) * element_);
    std::uint64_t address = row_address + static_cast<std::uint64_t>(first) * element_;
    while (bytes > 0) {
      const std::uint32_t chunk_rest = kChunkBytes - shared_ % kChunkBytes;
      const std::uint32_t length =
          map_.swizzle == Swizzle::none ? bytes : std::min(bytes, chunk_rest);
      runs_.push_back(
          {in_bounds ? address : 0, swizzled(shared_, map_.swizzle), length, in_bounds});
      shared_ += length;
      address += length;
      bytes -= length;
    }
  }

  const TensorMap& map_;
  std::span<const std::int32_t> coordinates_;
  std::uint32_t shared_;
  std::vector<BoxRun>& runs_;
  std::int64_t element_;
  std::int64_t inner_size_;
  std::uint32_t row_pitch_;
};

template <class Word, class Convert>
void convert_each(std::span<std::byte> bytes, Convert convert) {
  for (std::size_t i = 0; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    word = convert(word);
    std::memcpy(bytes.data() + i, &word, sizeof word);
  }
}

}  // namespace

std::uint32_t box_bytes(const TensorMap& map) {
  std::uint64_t bytes = element_bytes(map.type);
  for (unsigned d = 0; d < map.rank; ++d) bytes *= visited(map, d);
  if (bytes > kMaxBoxBytes) {
    throw std::invalid_argument("tensor copy: the box has " + std::to_string(bytes) +
                                " bytes; at most " + std::to_string(kMaxBoxBytes) +
                                " fit into shared memory");
  }
  return static_cast<std::uint32_t>(bytes);
}

void append_box_runs(const TensorMap& map, std::span<const std::int32_t> coordinates,
                     std::uint32_t shared_address, Direction direction, std::vector<BoxRun>& runs) {
  check(map, coordinates, shared_address, direction);
  runs.reserve(runs.size() + box_bytes(map) / kChunkBytes);
  BoxWalk(map, coordinates, shared_address, direction, runs)
      .dimension(map.rank - 1, map.address, true);
}

void fill_out_of_bounds(const TensorMap& map, std::span<std::byte> destination) {
  // The NaN of every type is made of this 16-bit pattern (as measured).
  constexpr std::uint16_t kNanPattern = 0x7ff7;
  if (map.fill == OutOfBoundsFill::zero) {
    std::fill(destination.begin(), destination.end(), std::byte{0});
  } else {
    convert_each<std::uint16_t>(destination, [](std::uint16_t) { return kNanPattern; });
  }
}

void convert_loaded(DataType type, std::span<std::byte> elements) {
  const bool flush = type == DataType::f32_ftz || type == DataType::tf32_ftz;
  const bool round = type == DataType::tf32 || type == DataType::tf32_ftz;
  if (!flush && !round) return;
  convert_each<std::uint32_t>(elements, [&](std::uint32_t bits) {
    if (flush && (bits & 0x7f800000u) == 0) bits &= 0x80000000u;
    if (round) bits = numeric::encode(numeric::Format::tf32, std::bit_cast<float>(bits));
    return bits;
  });
}

}  // namespace ptxemu::tma
