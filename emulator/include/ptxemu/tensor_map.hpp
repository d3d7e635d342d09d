// CUtensorMap: the 128 opaque bytes that cuTensorMapEncodeTiled makes and that the copy engine
// reads, encoded in the hardware's own layout, with the driver's validation.
#pragma once

#include <array>
#include <cstdint>

namespace ptxemu::tma {

inline constexpr unsigned kMaxRank = 5;

/// Values of CUtensorMapDataType.
enum class DataType : std::uint8_t {
  u8,
  u16,
  u32,
  s32,
  u64,
  s64,
  f16,
  f32,
  f64,
  bf16,
  f32_ftz,
  tf32,
  tf32_ftz,
  u4_align8,
  u4_align16,
  u6_align16
};
/// Values of CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion and
/// CUtensorMapFloatOOBfill.
enum class Interleave : std::uint8_t { none, bytes16, bytes32 };
enum class Swizzle : std::uint8_t { none, bytes32, bytes64, bytes128 };
enum class L2Promotion : std::uint8_t { none, bytes64, bytes128, bytes256 };
enum class OutOfBoundsFill : std::uint8_t { zero, nan };

/// A tiled tensor map. Dimension 0 is innermost and contiguous. Entries at and beyond `rank` are
/// ignored and decode as zero.
struct TensorMap {
  DataType type = DataType::u8;
  unsigned rank = 1;
  std::uint64_t address = 0;
  std::array<std::uint64_t, kMaxRank> size{};  // elements, 1 .. 2^32
  std::array<std::uint64_t, kMaxRank>
      stride{};  // bytes; stride[0] is the element size (implicit), then < 2^40
  std::array<std::uint32_t, kMaxRank> box{};             // elements, 1 .. 256
  std::array<std::uint32_t, kMaxRank> element_stride{};  // 1 .. 8
  Interleave interleave = Interleave::none;
  Swizzle swizzle = Swizzle::none;
  L2Promotion l2_promotion = L2Promotion::none;
  OutOfBoundsFill fill = OutOfBoundsFill::zero;

  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

using TensorMapBits = std::array<std::uint64_t, 16>;

/// Bytes of one element of `type` (packed sub-byte types are not supported: throws
/// std::invalid_argument).
unsigned element_bytes(DataType type);

/// Encodes as the driver does. Throws std::invalid_argument, naming the argument, its value and
/// what is allowed, wherever the driver returns CUDA_ERROR_INVALID_VALUE.
TensorMapBits encode(const TensorMap& map);

}  // namespace ptxemu::tma
