// Schedulers of persistent kernels: the only source of tile numbers for all roles, so that every
// role sees the same tiles in the same order and the same end. Each thread (or warp) that needs
// tiles owns one Producer or Consumer and calls next() until it returns kNoTile.
#pragma once

#include "tlx/channel.h"

namespace jfa::tlx {

constexpr u32 kNoTile = ~0U;

// Tiles dealt out in turn: workers (CTAs, or clusters whose CTAs work on one tile together) first,
// first + workers, … Costs nothing; right when tiles take the same time.
struct StaticTiles {
  u32 first;
  u32 workers;
  u32 tiles;

  TLX_DEVICE static StaticTiles of(u32 tiles, u32 ctas_per_cluster) {
    return {blockIdx.x / ctas_per_cluster, gridDim.x / ctas_per_cluster, tiles};
  }

  struct Consumer {
    u32 tile, workers, tiles;

    TLX_DEVICE explicit Consumer(const StaticTiles& schedule)
        : tile(schedule.first), workers(schedule.workers), tiles(schedule.tiles) {}

    TLX_DEVICE u32 next(bool /*one_lane*/ = true) {
      const u32 current = tile;
      tile += workers;
      return current < tiles ? current : kNoTile;
    }
  };
  using Producer = Consumer;
};

// Tiles drawn from a counter in global memory by the producer's thread and handed to the other
// roles through a channel: who is early takes more. For tiles of different cost. The counter is
// zero before the launch and after it.
template <u32 kConsumerWarps>
struct AtomicTiles {
  struct alignas(16) Number {
    u32 tile;
    u32 padding[3];
  };
  static constexpr u32 kDepth = 2;
  using Channel = ValueChannel<Number, kDepth, kConsumerWarps>;
  static constexpr u32 kBytes = Channel::kValueBytes + Channel::kBarrierBytes;

  Channel channel;
  u32* counter;
  u32 tiles;

  TLX_DEVICE static AtomicTiles of(u32 shared_address, u32* counter, u32 tiles) {
    return {{shared_address, {shared_address + Channel::kValueBytes}}, counter, tiles};
  }
  TLX_DEVICE void initialise() const { channel.initialise(); }

  struct Producer {
    const AtomicTiles& schedule;
    typename Channel::Producer channel;

    TLX_DEVICE explicit Producer(const AtomicTiles& source)
        : schedule(source), channel{source.channel} {}

    TLX_DEVICE u32 next() {
      const u32 drawn = ptx::atomic_add_acq_rel(schedule.counter, 1);
      // Every CTA draws one number beyond the end: the last of these leaves the counter at zero.
      const u32 draws = schedule.tiles + gridDim.x;
      if (drawn + 1 == draws) ptx::atomic_add_acq_rel(schedule.counter, 0 - draws);
      const u32 tile = drawn < schedule.tiles ? drawn : kNoTile;
      channel.acquire()->tile = tile;
      channel.send();
      return tile;
    }
  };

  struct Consumer {
    const AtomicTiles& schedule;
    typename Channel::Consumer channel;

    TLX_DEVICE explicit Consumer(const AtomicTiles& source)
        : schedule(source), channel{source.channel} {}

    TLX_DEVICE u32 next(bool one_lane) {
      const u32 number = channel.wait();
      const u32 tile = Channel::at(number)->tile;
      ptx::warp_sync();  // all lanes have read it
      channel.release(number, one_lane);
      return tile;
    }
  };
};

}  // namespace jfa::tlx
