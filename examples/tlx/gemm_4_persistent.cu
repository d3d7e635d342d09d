// Step 4, persistent: one CTA a multiprocessor goes through many tiles, so that the loads of the
// next tile run under the end of the last one. Two CTAs of a cluster work on neighbouring rows,
// each loads half of the B that both need and multicasts it. Tiles run in bands that stay in L2.
#include "tlx/epilogue.h"
#include "tlx/named_barriers.h"
#include "tlx/operand_channel.h"
#include "tlx/roles.h"
#include "tlx/scheduler.h"
#include "tlx/shared_plan.h"
#include "tlx/tile_order.h"

namespace jfa::examples {

using namespace jfa::tlx;

constexpr u32 kRows = 128, kColumns = 256, kDepth = 64, kStages = 4, kCtas = 2, kBand = 4;
constexpr u32 kGroups = kRows / 64;
using Budget = RoleBudget<kGroups>;
using Ring = OperandChannel<TileLayout<bf16, kRows, kDepth>, TileLayout<bf16, kColumns, kDepth>,
                            kStages, kGroups * 4, kCtas>;
using TileC = TileLayout<bf16, 64, 64>;

struct Tiles : Region<Ring::kTileBytes, 1024> {};
struct Output : Region<kGroups * 2 * TileC::kBytes, 1024> {};
struct Full : Region<Ring::kBarrierBytes, 8> {};
using Memory = SharedPlan<Distinct<Tiles, Output, Full>>;

struct OutputReady : NamedBarrier<kWarpgroupThreads, kGroups> {};
using Barriers = NamedBarriers<OutputReady>;

// Boxes of the maps: A and B 64 columns, 128 rows; C 64 columns, 64 rows. Grid: even.
__global__ void __cluster_dims__(kCtas, 1, 1) __launch_bounds__(Budget::kThreads, 1)
    gemm_persistent(const __grid_constant__ TensorMap a_map,
                    const __grid_constant__ TensorMap b_map,
                    const __grid_constant__ TensorMap c_map, u32 m, u32 n, u32 k) {
  extern __shared__ __align__(1024) char shared[];
  const u32 base = ptx::shared_address(shared);
  const Ring ring{base + Memory::offset<Tiles>, {base + Memory::offset<Full>}};
  const u32 warp = ptx::uniform(threadIdx.x / kWarpThreads), rank = ptx::cluster_rank();
  const u32 steps = ceil_div(k, kDepth);
  const BandedOrder order{static_cast<u32>(ceil_div(m, kRows * kCtas)),
                          static_cast<u32>(ceil_div(n, kColumns)), kBand};
  const StaticTiles schedule = StaticTiles::of(order.tiles(), kCtas);
  if (threadIdx.x == 0) {
    ring.initialise();
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();  // the barriers of both CTAs are ready

  if (warp < 4) {
    ptx::setmaxnreg_dec<Budget::kServiceRegisters>();
    if (warp == 0 && ptx::elect_one()) {
      Ring::Producer producer{ring};
      StaticTiles::Producer tiles{schedule};
      for (u32 tile = tiles.next(); tile != kNoTile; tile = tiles.next()) {
        const i32 row = (order.at(tile).row * kCtas + rank) * kRows;
        const i32 column = order.at(tile).column * kColumns + rank * (kColumns / kCtas);
        for (u32 step = 0; step < steps; ++step) {
          const auto slot = producer.acquire();
          const i32 depth = static_cast<i32>(step * kDepth);
          ptx::tma_load_2d(slot.a, a_map, slot.full, depth, row);
          ptx::tma_load_2d_multicast(slot.b + rank * (Ring::TileB::kBytes / kCtas), b_map,
                                     slot.full, depth, column, (1 << kCtas) - 1);
        }
      }
    }
  } else {
    ptx::setmaxnreg_inc<Budget::kComputeRegisters>();
    const u32 group = warp / 4 - 1, thread = threadIdx.x % kWarpgroupThreads;
    const bool one_lane = thread % kWarpThreads == 0;
    Ring::Consumer consumer{ring};
    StaticTiles::Consumer tiles{schedule};
    for (u32 tile = tiles.next(); tile != kNoTile; tile = tiles.next()) {
      Accumulator<kColumns> acc{};
      for (u32 step = 0; step < steps; ++step) {
        const auto slot = consumer.wait();
        acc.pin();
        ptx::wgmma_fence();
        async_dot_nt<bf16, Ring::TileA, Ring::TileB, kDepth>(acc, slot.a, group * 64, slot.b, true);
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<1>();  // the product before
        if (step > 0) consumer.release(one_lane);
      }
      ptx::wgmma_wait_group<0>();
      acc.pin();
      consumer.release(one_lane);
      const i32 row = (order.at(tile).row * kCtas + rank) * kRows + group * 64;
      store_accumulator<TileC, bf16, Barriers, OutputReady>(
          c_map, acc, base + Memory::offset<Output> + group * 2 * TileC::kBytes, group, thread, row,
          order.at(tile).column * kColumns);
    }
    if (thread == 0) finish_stores();
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();  // a CTA that others still copy to or arrive at must not end
}

}  // namespace jfa::examples
