// XXH64 after its specification, section "XXH64 algorithm description".
#include "jit/hash.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace jfa::jit {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5;

template <typename T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::uint64_t round_lane(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

}  // namespace

std::uint64_t hash64(std::string_view data, std::uint64_t seed) {
  const char* next = data.data();
  std::size_t left = data.size();

  std::uint64_t hash = seed + kPrime5;
  if (left >= 32) {
    std::array<std::uint64_t, 4> lanes{seed + kPrime1 + kPrime2, seed + kPrime2, seed,
                                       seed - kPrime1};
    for (; left >= 32; left -= 32) {
      for (std::uint64_t& lane : lanes) {
        lane = round_lane(lane, load<std::uint64_t>(next));
        next += 8;
      }
    }
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
           std::rotl(lanes[3], 18);
    for (const std::uint64_t lane : lanes) {
      hash = (hash ^ round_lane(0, lane)) * kPrime1 + kPrime4;
    }
  }
  hash += data.size();

  for (; left >= 8; left -= 8, next += 8) {
    hash ^= round_lane(0, load<std::uint64_t>(next));
    hash = std::rotl(hash, 27) * kPrime1 + kPrime4;
  }
  if (left >= 4) {
    hash ^= load<std::uint32_t>(next) * kPrime1;
    hash = std::rotl(hash, 23) * kPrime2 + kPrime3;
    left -= 4;
    next += 4;
  }
  for (; left > 0; --left, ++next) {
    hash ^= load<std::uint8_t>(next) * kPrime5;
    hash = std::rotl(hash, 11) * kPrime1;
  }

  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

std::string hash_name(std::string_view data) {
  return hexadecimal(hash64(data, 0)) + hexadecimal(hash64(data, kPrime1));
}

std::string hexadecimal(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace jfa::jit
