// The generic address space: windows for shared and local memory, everything else is global.
//
// Global addresses are host addresses (user space, below 2^47), so windows above can never collide.
#pragma once

#include <cstdint>

namespace ptxemu::mem {

/// Bits 63-56 name the window.
inline constexpr std::uint64_t kSharedWindow = std::uint64_t{0x01} << 56;
inline constexpr std::uint64_t kLocalWindow = std::uint64_t{0x02} << 56;
inline constexpr std::uint64_t kFunctionWindow = std::uint64_t{0x03} << 56;  ///< function pointers
inline constexpr std::uint64_t kWindowMask = std::uint64_t{0xff} << 56;

/// A 32-bit shared::cluster address: the CTA's rank above bit 24, the offset in its window below.
/// Kernels rely on bit 24 being the low bit of the rank (they mask it to address the even CTA).
inline constexpr unsigned kRankShift = 24;
inline constexpr std::uint32_t kOffsetMask = (1u << kRankShift) - 1;

constexpr std::uint32_t rank_of(std::uint32_t shared_address) {
  return shared_address >> kRankShift;
}
constexpr std::uint32_t offset_of(std::uint32_t shared_address) {
  return shared_address & kOffsetMask;
}

}  // namespace ptxemu::mem
