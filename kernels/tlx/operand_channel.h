// The ring of a matrix product: each slot holds a tile of A and one of B, which TMA writes and the
// warps of all consumer warpgroups multiply. With kCtas > 1 the CTAs of a cluster share what they
// load: a slot is free when all of them have read it, and full when the pieces from all of them
// have arrived.
#pragma once

#include "tlx/channel.h"
#include "tlx/cluster.h"

namespace jfa::tlx {

template <typename TileAT, typename TileBT, u32 kDepth, u32 kConsumerWarps, u32 kCtas = 1>
struct OperandChannel {
  using TileA = TileAT;
  using TileB = TileBT;
  static constexpr u32 kSlotBytes = TileA::kBytes + TileB::kBytes;
  static constexpr u32 kTileBytes = kDepth * kSlotBytes;
  static constexpr u32 kBarrierBytes = RingBarriers<kDepth>::kBytes;
  static_assert(TileA::kBytes % TileA::kAlignment == 0 && TileB::kBytes % TileB::kAlignment == 0,
                "tiles lie side by side: their size must be a multiple of 1024 bytes");
  static_assert(kCtas >= 1 && kCtas <= 8, "a portable cluster has at most 8 CTAs");

  u32 tiles;  // shared address of slot 0
  RingBarriers<kDepth> barriers;

  TLX_DEVICE void initialise() const { barriers.initialise(1, kConsumerWarps * kCtas); }

  struct Slot {
    u32 a, b;  // shared addresses of the tiles
    u32 full;  // barrier that the copies complete on
  };

  struct Producer {
    const OperandChannel& channel;
    Cursor<kDepth> cursor = Cursor<kDepth>::of_producer();

    // Waits until the next slot is free and arms the bytes of both tiles, whichever CTA loads them.
    [[nodiscard]] TLX_DEVICE Slot acquire() {
      const u32 slot = cursor.slot(), full = channel.barriers.full(slot);
      ptx::mbarrier_wait(channel.barriers.empty(slot), cursor.parity());
      ptx::mbarrier_arrive_expect_tx(full, kSlotBytes);
      cursor.advance();
      const u32 a = channel.tiles + slot * kSlotBytes;
      return {a, a + TileA::kBytes, full};
    }
  };

  // Slots are waited for and given back in the order of arrival; a product may be under way between
  // the two.
  struct Consumer {
    const OperandChannel& channel;
    Cursor<kDepth> newest{};
    Cursor<kDepth> oldest{};

    [[nodiscard]] TLX_DEVICE Slot wait() {
      const u32 slot = newest.slot(), full = channel.barriers.full(slot);
      ptx::mbarrier_wait(full, newest.parity());
      newest.advance();
      const u32 a = channel.tiles + slot * kSlotBytes;
      return {a, a + TileA::kBytes, full};
    }

    // Gives the oldest slot back; every warp calls it once, after its last read.
    TLX_DEVICE void release(bool one_lane) {
      const u32 empty = channel.barriers.empty(oldest.slot());
      oldest.advance();
      if (!one_lane) return;
      if constexpr (kCtas == 1) {
        ptx::mbarrier_arrive(empty);
      } else {
#pragma unroll
        for (u32 rank = 0; rank < kCtas; ++rank) ptx::mbarrier_arrive_at_cta(empty, rank);
      }
    }
  };
};

}  // namespace jfa::tlx
