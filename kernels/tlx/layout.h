// Shared-memory layouts that TMA writes and the tensor core reads, and the matrix descriptors that
// name them. Everything is constexpr and runs on the host, where every mode is tested.
#pragma once

#include "tlx/base.h"

namespace jfa::tlx {

// How 16-byte chunks of a row are permuted in shared memory. The value is the row length in bytes
// that one pattern spans.
enum class Swizzle : u32 { none = 16, b32 = 32, b64 = 64, b128 = 128 };

// Byte address after the hardware's swizzle: 128B mode address bits 4-6 ^= bits 7-9; 64B: 4-5 ^=
// 7-8; 32B: 4 ^= 7. (PTX ISA, "Tensor-map swizzling modes".)
TLX_HOST_DEVICE u32 swizzled(Swizzle mode, u32 byte) {
  const u32 chunks = static_cast<u32>(mode) / 16;  // 1, 2, 4, 8
  return byte ^ (((byte >> 7) & (chunks - 1)) << 4);
}

// Bits 62-63 of the sm_90 matrix descriptor.
TLX_HOST_DEVICE u64 descriptor_code(Swizzle mode) {
  return mode == Swizzle::b128 ? 1 : mode == Swizzle::b64 ? 2 : mode == Swizzle::b32 ? 3 : 0;
}

// sm_90 shared-memory matrix descriptor (PTX ISA, "Asynchronous warpgroup level matrix shared
// memory layout"). Addresses and offsets in bytes, multiples of 16; the pattern must start at a
// multiple of 8 · swizzle bytes (base offset 0).
TLX_HOST_DEVICE u64 matrix_descriptor(u32 shared_address, u32 leading_bytes, u32 stride_bytes,
                                      Swizzle mode) {
  return static_cast<u64>((shared_address & 0x3FFFF) >> 4) |
         (static_cast<u64>((leading_bytes & 0x3FFFF) >> 4) << 16) |
         (static_cast<u64>((stride_bytes & 0x3FFFF) >> 4) << 32) | (descriptor_code(mode) << 62);
}

// The widest swizzle that divides a row of `columns` elements.
TLX_HOST_DEVICE Swizzle widest_swizzle(u32 columns, u32 element_bytes) {
  const u32 bytes = columns * element_bytes;
  return bytes % 128 == 0  ? Swizzle::b128
         : bytes % 64 == 0 ? Swizzle::b64
         : bytes % 32 == 0 ? Swizzle::b32
                           : Swizzle::none;
}

// A [rows, columns] tile in shared memory: panels of one swizzle span side by side, each [rows,
// span] and dense. This is what a TMA box {span, rows} writes, what wgmma reads as a K-major
// operand (columns contracted) or, transposed, as an MN-major one (rows contracted).
template <typename Element, u32 kRows, u32 kColumns>
struct TileLayout {
  static constexpr u32 kRowCount = kRows;
  static constexpr u32 kColumnCount = kColumns;
  static constexpr u32 kElementBytes = sizeof(Element);
  static constexpr Swizzle kSwizzle = widest_swizzle(kColumns, kElementBytes);
  static constexpr u32 kSpanBytes = static_cast<u32>(kSwizzle);
  static constexpr u32 kPanelColumns = kSpanBytes / kElementBytes;
  static constexpr u32 kPanels = kColumns / kPanelColumns;
  static constexpr u32 kPanelBytes = kRows * kSpanBytes;
  static constexpr u32 kBytes = kPanels * kPanelBytes;
  static constexpr u32 kAlignment =
      1024;  // start of an 8-row 128-byte pattern; enough for the narrower modes too

  static_assert(
      kSwizzle != Swizzle::none,
      "a tile row must be a multiple of 32 bytes: pad the head dimension to a multiple of 16");
  static_assert(kRows % 8 == 0,
                "a tile needs a multiple of 8 rows: the swizzle pattern is 8 rows high");

  // Byte offset of element (row, column) from the start of the tile.
  static TLX_HOST_DEVICE u32 offset(u32 row, u32 column) {
    const u32 panel = column / kPanelColumns;
    return panel * kPanelBytes +
           swizzled(kSwizzle, row * kSpanBytes + (column % kPanelColumns) * kElementBytes);
  }

  // Operands are named by the descriptor of their first instruction plus a constant: the start
  // address sits in the descriptor's lowest bits in units of 16 bytes, so that stepping is one
  // addition on the uniform datapath.

  // Operand with the columns contracted (K-major), from row `first_row` on. Stride: 8 rows;
  // swizzled modes ignore the leading offset.
  static TLX_HOST_DEVICE u64 k_major(u32 address, u32 first_row) {
    return matrix_descriptor(address + first_row * kSpanBytes, 16, 8 * kSpanBytes, kSwizzle);
  }
  // … to its k-step: 32 bytes of K an instruction, then the next panel.
  static TLX_HOST_DEVICE u64 k_major_step(u32 step) {
    constexpr u32 kSteps = kSpanBytes / 32;
    return ((step / kSteps) * kPanelBytes + (step % kSteps) * 32) / 16;
  }

  // Operand with the rows contracted (MN-major, "transposed"). Leading: next panel of columns;
  // stride: next 8 rows.
  static TLX_HOST_DEVICE u64 mn_major(u32 address) {
    return matrix_descriptor(address, kPanelBytes, 8 * kSpanBytes, kSwizzle);
  }
  // … to its k-step: 16 rows an instruction.
  static TLX_HOST_DEVICE u64 mn_major_step(u32 step) { return step * 16 * kSpanBytes / 16; }
};

}  // namespace jfa::tlx
