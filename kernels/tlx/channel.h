// Channels: rings of buffers between warp roles. A channel owns its full and empty barriers; arrive
// counts, byte counts and phases follow from its type, so a role never sees one. Producers acquire
// → fill; consumers wait → read → release.
#pragma once

#include "tlx/ptx.h"
#include "tlx/tma.h"

namespace jfa::tlx {

// Position in a ring, one number for slot and phase parity: registers are short where rings are
// read. Positions go round twice the ring; the parity is that of the round.
template <u32 kDepth>
struct Cursor {
  static constexpr bool kPowerOfTwo = (kDepth & (kDepth - 1)) == 0;
  u32 position = 0;

  // Where the producer of a fresh ring begins: the wait for its first round is over at once.
  static TLX_DEVICE Cursor of_producer() { return {kDepth}; }

  TLX_DEVICE u32 slot() const { return slot_of(position); }
  TLX_DEVICE u32 parity() const {
    if constexpr (kPowerOfTwo) return position / kDepth % 2;
    return position >= kDepth ? 1 : 0;
  }
  TLX_DEVICE void advance() {
    ++position;
    if constexpr (!kPowerOfTwo) {
      if (position == 2 * kDepth) position = 0;
    }
  }
  // The slot of the position `steps` before.
  TLX_DEVICE u32 last(u32 steps = 1) const {
    if constexpr (kPowerOfTwo) return slot_of(position - steps);
    return slot_of(position < steps ? position + 2 * kDepth - steps : position - steps);
  }

 private:
  static TLX_DEVICE u32 slot_of(u32 at) {
    if constexpr (kPowerOfTwo) return at % kDepth;
    return at >= kDepth ? at - kDepth : at;
  }
};

// Two barriers a slot, full then empty; 16 bytes a slot.
template <u32 kDepth>
struct RingBarriers {
  static constexpr u32 kBytes = kDepth * 16;
  u32 address;  // shared address

  TLX_DEVICE u32 full(u32 slot) const { return address + slot * 8; }
  TLX_DEVICE u32 empty(u32 slot) const { return address + (kDepth + slot) * 8; }

  TLX_DEVICE void initialise(u32 full_arrivals, u32 empty_arrivals) const {
    for (u32 slot = 0; slot < kDepth; ++slot) {
      ptx::mbarrier_init(full(slot), full_arrivals);
      ptx::mbarrier_init(empty(slot), empty_arrivals);
    }
  }
};

// Tiles that TMA writes and `kConsumerWarps` warps read. One thread produces: its arrival arms the
// bytes of one tile and the copy engine completes them.
template <typename Layout, u32 kDepth, u32 kConsumerWarps>
struct TmaChannel {
  using Tile = Layout;
  static constexpr u32 kTileBytes = kDepth * Layout::kBytes;
  static constexpr u32 kBarrierBytes = RingBarriers<kDepth>::kBytes;

  u32 tiles;  // shared address of slot 0
  RingBarriers<kDepth> barriers;

  TLX_DEVICE void initialise() const { barriers.initialise(1, kConsumerWarps); }
  TLX_DEVICE u32 tile(u32 slot) const { return tiles + slot * Layout::kBytes; }

  struct Slot {
    u32 tile;  // shared address
    u32 full;  // barrier that the copies complete on
  };

  struct Producer {
    u32 tiles;
    RingBarriers<kDepth> barriers;
    Cursor<kDepth> cursor;

    TLX_DEVICE explicit Producer(const TmaChannel& channel,
                                 Cursor<kDepth> start = Cursor<kDepth>::of_producer())
        : tiles(channel.tiles), barriers(channel.barriers), cursor(start) {}

    // Waits until the next slot is free and arms its byte count; the caller issues copies of
    // `bytes`, the whole tile if not told otherwise.
    [[nodiscard]] TLX_DEVICE Slot acquire(u32 bytes = Layout::kBytes) {
      const u32 slot = cursor.slot();
      ptx::mbarrier_wait(barriers.empty(slot), cursor.parity());
      ptx::mbarrier_arrive_expect_tx(barriers.full(slot), bytes);
      cursor.advance();
      return {tiles + slot * Layout::kBytes, barriers.full(slot)};
    }
  };

  // One tile at a time: registers are short where tiles are consumed.
  struct Consumer {
    u32 tiles;
    RingBarriers<kDepth> barriers;
    Cursor<kDepth> cursor{};

    TLX_DEVICE explicit Consumer(const TmaChannel& channel)
        : tiles(channel.tiles), barriers(channel.barriers) {}

    // Waits for the next tile; returns its shared address.
    [[nodiscard]] TLX_DEVICE u32 wait() {
      const u32 slot = cursor.slot();
      ptx::mbarrier_wait(barriers.full(slot), cursor.parity());
      cursor.advance();
      return tiles + slot * Layout::kBytes;
    }

    // The tile of the last wait().
    TLX_DEVICE u32 tile() const { return tiles + cursor.last() * Layout::kBytes; }

    // Gives it back; every warp calls this once, after its last read.
    TLX_DEVICE void release(bool one_lane) const {
      if (one_lane) ptx::mbarrier_arrive(barriers.empty(cursor.last()));
    }
  };
};

// Small values (work items) that one thread sends and `kConsumerWarps` warps read where they lie,
// in shared memory: a value of a few hundred bits would cost every thread its registers.
template <typename Value, u32 kDepth, u32 kConsumerWarps>
struct ValueChannel {
  static constexpr u32 kValueBytes = kDepth * sizeof(Value);
  static constexpr u32 kBarrierBytes = RingBarriers<kDepth>::kBytes;
  static_assert(sizeof(Value) % 16 == 0, "values are copied in 16-byte pieces: pad the struct");

  u32 values;  // shared address
  RingBarriers<kDepth> barriers;

  // A value arrives twice: what the producer stored itself, and what it had copied.
  TLX_DEVICE void initialise() const { barriers.initialise(2, kConsumerWarps); }

  static TLX_DEVICE Value* at(u32 address) { return ptx::shared_pointer<Value>(address); }

  struct Producer {
    const ValueChannel& channel;
    Cursor<kDepth> cursor = Cursor<kDepth>::of_producer();

    // Waits for a free slot and returns it, for the caller to fill with ordinary stores and with
    // asynchronous copies (cp.async), whose latency nobody waits for here; then send().
    [[nodiscard]] TLX_DEVICE Value* acquire() {
      ptx::mbarrier_wait(channel.barriers.empty(cursor.slot()), cursor.parity());
      return at(channel.values + cursor.slot() * sizeof(Value));
    }
    TLX_DEVICE void send() {
      ptx::cp_async_mbarrier_arrive(channel.barriers.full(cursor.slot()));
      ptx::mbarrier_arrive(channel.barriers.full(cursor.slot()));
      cursor.advance();
    }
  };

  struct Consumer {
    const ValueChannel& channel;
    Cursor<kDepth> cursor{};

    // Waits for the next value and returns its shared address; at(address) may be read until the
    // value is released.
    [[nodiscard]] TLX_DEVICE u32 wait() {
      const u32 slot = cursor.slot();
      ptx::mbarrier_wait(channel.barriers.full(slot), cursor.parity());
      cursor.advance();
      return channel.values + slot * sizeof(Value);
    }

    // The value of the last wait(), and the one before it.
    TLX_DEVICE u32 newest() const { return channel.values + cursor.last() * sizeof(Value); }
    TLX_DEVICE u32 before() const { return channel.values + cursor.last(2) * sizeof(Value); }

    // Gives a value back, in the order of arrival; every warp calls it once, after its last read.
    TLX_DEVICE void release(u32 address, bool one_lane) const {
      const u32 slot = (address - channel.values) / sizeof(Value);
      if (one_lane) ptx::mbarrier_arrive(channel.barriers.empty(slot));
    }
  };
};

}  // namespace jfa::tlx
