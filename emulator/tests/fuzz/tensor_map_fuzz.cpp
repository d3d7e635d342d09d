// Fuzz entry: any 128 bytes as a tensor map, then a box of it; and any values as the fields of one.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "tma/box.hpp"
#include "tma/tensor_map.hpp"

namespace {

using namespace ptxemu::tma;

// Takes values off the front of the input; zeros when it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}
  template <typename Value>
  void take(Value& value) {
    const std::size_t count = std::min(sizeof(Value), bytes_.size());
    std::memcpy(&value, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
  }
  template <typename Value>
  Value take() {
    Value value{};
    take(value);
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

// What is refused with a message is right.
template <typename Action>
void may_be_refused(Action action) {
  try {
    action();
  } catch (const std::invalid_argument&) {  // NOLINT(bugprone-empty-catch)
  }
}

// The runs of a box stay inside its shared bytes, whatever the map says.
void walk(const TensorMap& map, Input& input) {
  std::array<std::int32_t, kMaxRank> coordinates{};
  for (std::int32_t& coordinate : coordinates) input.take(coordinate);
  const auto shared = input.take<std::uint32_t>();
  for (const Direction direction : {Direction::load, Direction::store}) {
    may_be_refused([&] {
      std::vector<BoxRun> runs;
      const std::uint64_t bytes = box_bytes(map);
      append_box_runs(map, std::span(coordinates).first(map.rank), shared, direction, runs);
      std::uint64_t covered = 0;
      for (const BoxRun& run : runs) covered += run.bytes;
      if (direction == Direction::load ? covered != bytes : covered > bytes) std::abort();
    });
  }
}

void decode_bits(Input input) {
  TensorMapBits bits{};
  input.take(bits);
  const auto changes = input.take<std::uint8_t>() % 4;
  for (int change = 0; change < changes; ++change) {
    const auto field = static_cast<MapField>(input.take<std::uint8_t>() % 10);
    const unsigned ordinal = input.take<std::uint8_t>();
    const auto value = input.take<std::uint64_t>();
    replace(bits, field, ordinal, value);
  }
  may_be_refused([&] { walk(decode(bits), input); });
}

void encode_fields(Input input) {
  TensorMap map;
  map.type = static_cast<DataType>(input.take<std::uint8_t>());
  map.rank = input.take<std::uint8_t>() % 8;
  input.take(map.address);
  input.take(map.size);
  input.take(map.stride);
  input.take(map.box);
  input.take(map.element_stride);
  map.interleave = static_cast<Interleave>(input.take<std::uint8_t>());
  map.swizzle = static_cast<Swizzle>(input.take<std::uint8_t>());
  map.l2_promotion = static_cast<L2Promotion>(input.take<std::uint8_t>());
  map.fill = static_cast<OutOfBoundsFill>(input.take<std::uint8_t>());
  may_be_refused([&] {
    const TensorMap decoded = decode(encode(map));
    if (decoded.rank != map.rank || decoded.address != map.address) std::abort();
    walk(decoded, input);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  decode_bits(Input(data, size));
  encode_fields(Input(data, size));
  return 0;
}
