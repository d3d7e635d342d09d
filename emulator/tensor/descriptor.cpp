// The canonical layouts of wgmma operands. Units below are bytes; W is the width of a swizzle row
// (32, 64 or 128).
#include "tensor/descriptor.hpp"

namespace ptxemu::tensor {
namespace {

constexpr std::uint32_t kAddressMask = (1u << 18) - 1;
constexpr unsigned kChunkBytes = 16;
constexpr unsigned kKBytes = 32;  // every wgmma takes 32 bytes along K

std::uint32_t field(std::uint64_t bits, unsigned first) {
  return static_cast<std::uint32_t>((bits >> first) & 0x3fff) << 4;
}

unsigned swizzle_width(SwizzleMode mode) {
  switch (mode) {
    case SwizzleMode::bytes128:
      return 128;
    case SwizzleMode::bytes64:
      return 64;
    case SwizzleMode::bytes32:
      return 32;
    default:
      return kChunkBytes;
  }
}

/// The swizzle exchanges 16-byte chunks: chunk bits (4..) of the address are XORed with its row
/// bits (7..).
std::uint32_t swizzled(std::uint32_t address, const MatrixDescriptor& descriptor) {
  const std::uint32_t chunk_mask = swizzle_width(descriptor.swizzle) / kChunkBytes - 1;
  const std::uint32_t row = (address >> 7) - descriptor.base_offset;
  return (address ^ ((row & chunk_mask) << 4)) & kAddressMask;
}

}  // namespace

MatrixDescriptor MatrixDescriptor::decode(std::uint64_t bits) {
  return {.start_address = field(bits, 0),
          .leading_byte_offset = field(bits, 16),
          .stride_byte_offset = field(bits, 32),
          .base_offset = static_cast<std::uint8_t>((bits >> 49) & 7),
          .swizzle = static_cast<SwizzleMode>(bits >> 62)};
}

std::uint64_t MatrixDescriptor::encode() const {
  const auto place = [](std::uint64_t bytes, unsigned first) {
    return ((bytes & kAddressMask) >> 4) << first;
  };
  return place(start_address, 0) | place(leading_byte_offset, 16) | place(stride_byte_offset, 32) |
         (static_cast<std::uint64_t>(base_offset & 7) << 49) |
         (static_cast<std::uint64_t>(swizzle) << 62);
}

std::string descriptor_error(std::uint64_t bits) {
  constexpr std::uint64_t kUsed =
      0x3fffull | (0x3fffull << 16) | (0x3fffull << 32) | (7ull << 49) | (3ull << 62);
  const std::uint64_t reserved = bits & ~kUsed;
  if (reserved == 0) return {};
  std::string text = "matrix descriptor has reserved bits set:";
  for (unsigned bit = 0; bit < 64; ++bit) {
    if (((reserved >> bit) & 1) != 0) text += ' ' + std::to_string(bit);
  }
  return text + " (used are 0-13, 16-29, 32-45, 49-51 and 62-63)";
}

std::vector<std::uint32_t> operand_chunks(const MatrixDescriptor& descriptor, Major major,
                                          unsigned mn, unsigned element_bytes) {
  const unsigned width = swizzle_width(descriptor.swizzle);
  const std::uint32_t lbo = descriptor.leading_byte_offset;
  const std::uint32_t sbo = descriptor.stride_byte_offset;
  const bool interleaved = descriptor.swizzle == SwizzleMode::none;
  std::vector<std::uint32_t> chunks;
  const auto push = [&](std::uint32_t offset) {
    chunks.push_back(swizzled(descriptor.start_address + offset, descriptor));
  };
  if (major == Major::k) {
    // Rows of W bytes, eight rows to a group; without swizzle the two K chunks are LBO apart
    // instead.
    const std::uint32_t chunk_stride = interleaved ? lbo : kChunkBytes;
    chunks.reserve(mn * 2);
    for (unsigned row = 0; row < mn; ++row) {
      const std::uint32_t start = (row / 8) * sbo + (row % 8) * width;
      for (unsigned chunk = 0; chunk < kKBytes / kChunkBytes; ++chunk)
        push(start + chunk * chunk_stride);
    }
    return chunks;
  }
  // One row per k, W bytes of consecutive M or N elements each. Without swizzle LBO and SBO change
  // places.
  const unsigned k_extent = kKBytes / element_bytes;
  const unsigned chunks_per_k = mn * element_bytes / kChunkBytes;
  const unsigned chunks_per_row = width / kChunkBytes;
  const std::uint32_t row_stride = interleaved ? sbo : lbo;
  const std::uint32_t group_stride = interleaved ? lbo : sbo;
  chunks.reserve(k_extent * chunks_per_k);
  for (unsigned k = 0; k < k_extent; ++k) {
    const std::uint32_t start = (k / 8) * group_stride + (k % 8) * width;
    for (unsigned chunk = 0; chunk < chunks_per_k; ++chunk) {
      push(start + (chunk / chunks_per_row) * row_stride + (chunk % chunks_per_row) * kChunkBytes);
    }
  }
  return chunks;
}

}  // namespace ptxemu::tensor
