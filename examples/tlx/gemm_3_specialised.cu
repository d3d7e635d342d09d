// Step 3, warp-specialised: a load role runs ahead as far as the ring allows, two compute
// warpgroups only multiply, with the registers that the load role does not need. One product stays
// in flight while the next one is issued.
#include "tlx/epilogue.h"
#include "tlx/named_barriers.h"
#include "tlx/operand_channel.h"
#include "tlx/roles.h"
#include "tlx/shared_plan.h"

namespace jfa::examples {

using namespace jfa::tlx;

constexpr u32 kRows = 128, kColumns = 256, kDepth = 64, kStages = 4;
constexpr u32 kGroups = kRows / 64;
using Budget = RoleBudget<kGroups>;
using Ring = OperandChannel<TileLayout<bf16, kRows, kDepth>, TileLayout<bf16, kColumns, kDepth>,
                            kStages, kGroups * 4>;
using TileC = TileLayout<bf16, 64, 64>;

struct Tiles : Region<Ring::kTileBytes, 1024> {};
struct Output : Region<kGroups * 2 * TileC::kBytes, 1024> {};
struct Full : Region<Ring::kBarrierBytes, 8> {};
using Memory = SharedPlan<Distinct<Tiles, Output, Full>>;

struct OutputReady : NamedBarrier<kWarpgroupThreads, kGroups> {};
using Barriers = NamedBarriers<OutputReady>;

// Boxes of the maps: A and B 64 columns, 128 rows; C 64 columns, 64 rows. Grid: (tiles of M, of N).
__global__ void __launch_bounds__(Budget::kThreads, 1)
    gemm_specialised(const __grid_constant__ TensorMap a_map,
                     const __grid_constant__ TensorMap b_map,
                     const __grid_constant__ TensorMap c_map, u32 k) {
  extern __shared__ __align__(1024) char shared[];
  const u32 base = ptx::shared_address(shared);
  const Ring ring{base + Memory::offset<Tiles>, {base + Memory::offset<Full>}};
  const i32 row = blockIdx.x * kRows, column = blockIdx.y * kColumns;
  const u32 warp = ptx::uniform(threadIdx.x / kWarpThreads), steps = ceil_div(k, kDepth);
  if (threadIdx.x == 0) {
    ring.initialise();
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (warp < 4) {
    ptx::setmaxnreg_dec<Budget::kServiceRegisters>();
    if (warp != 0 || !ptx::elect_one()) return;
    Ring::Producer producer{ring};
    for (u32 step = 0; step < steps; ++step) {
      const auto slot = producer.acquire();
      const i32 depth = static_cast<i32>(step * kDepth);
      ptx::tma_load_2d(slot.a, a_map, slot.full, depth, row);
      ptx::tma_load_2d(slot.b, b_map, slot.full, depth, column);
      ptx::tma_load_2d(slot.b + Ring::TileB::kBytes / 2, b_map, slot.full, depth, column + 128);
    }
  } else {
    ptx::setmaxnreg_inc<Budget::kComputeRegisters>();
    const u32 group = warp / 4 - 1, thread = threadIdx.x % kWarpgroupThreads;
    const bool one_lane = thread % kWarpThreads == 0;
    Ring::Consumer consumer{ring};
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
    store_accumulator<TileC, bf16, Barriers, OutputReady>(
        c_map, acc, base + Memory::offset<Output> + group * 2 * TileC::kBytes, group, thread,
        row + static_cast<i32>(group * 64), column);
    if (thread == 0) finish_stores();
  }
}

}  // namespace jfa::examples
