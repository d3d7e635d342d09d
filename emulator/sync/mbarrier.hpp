// The state of an mbarrier, kept in its own eight bytes of shared memory, so that data written over
// a live barrier destroys it as it would on hardware.
#pragma once

#include <cstdint>
#include <optional>

namespace ptxemu::sync {

/// Bits: 0 phase parity, 1-20 expected arrivals, 21-40 pending arrivals, 41-61 transaction bytes
/// (two's complement), 62-63 the mark 0b10 of a live barrier.
struct Mbarrier {
  static constexpr std::uint32_t kMaxCount = (1u << 20) - 1;
  static constexpr std::int32_t kMaxTransactions = (1 << 20) - 1;

  std::uint32_t phase = 0;
  std::uint32_t expected = 0;
  std::uint32_t pending = 0;
  std::int32_t transactions = 0;

  static std::optional<Mbarrier> decode(std::uint64_t bits) {
    if (bits >> 62 != 2) return std::nullopt;
    Mbarrier b;
    b.phase = bits & 1;
    b.expected = static_cast<std::uint32_t>(bits >> 1) & kMaxCount;
    b.pending = static_cast<std::uint32_t>(bits >> 21) & kMaxCount;
    b.transactions = static_cast<std::int32_t>(static_cast<std::int64_t>(bits << 2) >> 43);
    if (b.expected == 0) return std::nullopt;
    return b;
  }
  [[nodiscard]] std::uint64_t encode() const {
    return std::uint64_t{2} << 62 |
           (static_cast<std::uint64_t>(static_cast<std::uint32_t>(transactions)) & 0x1fffff) << 41 |
           std::uint64_t{pending} << 21 | std::uint64_t{expected} << 1 | phase;
  }
  /// Opens the next phase if all arrivals and transactions of this one are there.
  bool complete_phase() {
    if (pending != 0 || transactions != 0) return false;
    phase ^= 1;
    pending = expected;
    return true;
  }
};

}  // namespace ptxemu::sync
