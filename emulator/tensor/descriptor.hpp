// The 64-bit shared-memory matrix descriptor of wgmma, and the map from matrix elements to
// shared-memory bytes that it defines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ptxemu::tensor {

/// Values are the descriptor's own encoding (bits 62-63).
enum class SwizzleMode : std::uint8_t { none = 0, bytes128 = 1, bytes64 = 2, bytes32 = 3 };

/// Which index of the operand runs along consecutive bytes: K, or M (for A) / N (for B).
enum class Major : std::uint8_t { k, mn };

/// All offsets in bytes, as decoded from 16-byte units.
struct MatrixDescriptor {
  std::uint32_t start_address = 0;  // within the CTA's shared memory, 18 bits
  std::uint32_t leading_byte_offset = 0;
  std::uint32_t stride_byte_offset = 0;
  std::uint8_t base_offset = 0;  // 0..7, phase of the swizzle pattern in units of 128 bytes
  SwizzleMode swizzle = SwizzleMode::none;

  static MatrixDescriptor decode(std::uint64_t bits);
  std::uint64_t encode() const;
};

/// Text of what is wrong with the reserved bits or the alignment of a descriptor; empty when it is
/// well formed.
std::string descriptor_error(std::uint64_t bits);

/// Shared-memory byte offsets of the 16-byte chunks of one operand tile of `mn` rows by 32 bytes of
/// K (the K extent of every wgmma). K major:  chunk [r * 2 + c]   holds bytes 16c..16c+15 of row r,
/// r < mn. MN major: chunk [k * (mn * element_bytes / 16) + c] holds elements c*16/element_bytes..
/// of column k. `k_extent` is the number of K elements (32 / element_bytes). Offsets are taken
/// modulo 2^18, as the hardware's address field is.
std::vector<std::uint32_t> operand_chunks(const MatrixDescriptor& descriptor, Major major,
                                          unsigned mn, unsigned element_bytes);

}  // namespace ptxemu::tensor
