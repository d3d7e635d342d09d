// Roles that only count the tiles a scheduler gives them.
#include "tlx/scheduler.h"

namespace jfa::test {

using namespace jfa::tlx;

// Warp 0 produces, warps 1 to 3 consume. counts [4, tiles]: how often each warp saw each tile.
__global__ void count_atomic(u32* counter, u32* counts, u32 tiles) {
  using Schedule = AtomicTiles<3>;
  __shared__ __align__(16) char shared[Schedule::kBytes];
  const auto schedule = Schedule::of(ptx::shared_address(shared), counter, tiles);
  const u32 warp = threadIdx.x / kWarpThreads;
  const bool one_lane = threadIdx.x % kWarpThreads == 0;
  if (threadIdx.x == 0) {
    schedule.initialise();
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (warp == 0) {
    if (!one_lane) return;
    Schedule::Producer producer{schedule};
    for (u32 tile = producer.next(); tile != kNoTile; tile = producer.next())
      atomicAdd(counts + tile, 1u);
  } else {
    Schedule::Consumer consumer{schedule};
    for (u32 tile = consumer.next(one_lane); tile != kNoTile; tile = consumer.next(one_lane))
      if (one_lane) atomicAdd(counts + u64{warp} * tiles + tile, 1u);
  }
}

// The same for tiles dealt out in turn, to all four warps.
__global__ void count_static(u32* counts, u32 tiles) {
  StaticTiles::Consumer consumer{StaticTiles::of(tiles, 1)};
  for (u32 tile = consumer.next(); tile != kNoTile; tile = consumer.next())
    if (threadIdx.x % kWarpThreads == 0)
      atomicAdd(counts + u64{threadIdx.x / kWarpThreads} * tiles + tile, 1u);
}

}  // namespace jfa::test
