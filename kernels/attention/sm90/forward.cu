// Forward jagged attention for Hopper: the kernel entry. It sets up the channels and sends each
// warp to its role.
#include "attention/sm90/forward_load.h"
#include "attention/sm90/forward_softmax.h"
#include "attention/sm90/forward_store.h"

namespace jfa::kernels::sm90 {

// Rows of a warpgroup's query tile that no packed head uses are multiplied all the same: they start
// as zeros, so that they hold numbers. All threads take part.
template <typename Config>
TLX_DEVICE void clear_queries(char* queries) {
  if constexpr (Config::kUsedRows != kForwardGroupRows) {
    constexpr u32 kBytes = ForwardMemory<Config>::Queries::kBytes;
    for (u32 i = threadIdx.x * 4; i < kBytes; i += Config::Budget::kThreads * 4)
      *reinterpret_cast<u32*>(queries + i) = 0;
    ptx::fence_proxy_async_shared();
  }
}

template <typename Config>
__global__ void __launch_bounds__(Config::Budget::kThreads, 1)
    forward(const __grid_constant__ ForwardArguments p, const __grid_constant__ TensorMap q_map,
            const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
            const __grid_constant__ TensorMap out_map) {
  extern __shared__ __align__(1024) char shared[];
  const Channels<Config> channels(shared);
  const u32 warp = ptx::uniform(threadIdx.x / 32);
  if (threadIdx.x == 0) channels.initialise();
  using Memory = ForwardMemory<Config>;
  clear_queries<Config>(shared + Memory::template offset<typename Memory::Queries>);
  ptx::griddepcontrol_wait();  // the plan, or whatever else came before
  __syncthreads();

  if (warp < 4) {
    ptx::setmaxnreg_dec<Config::Budget::kServiceRegisters>();
    if (warp == 0 && ptx::elect_one()) load_role<Config>(p, channels, q_map, k_map, v_map);
    if (warp == 1 && ptx::elect_one()) store_role<Config>(channels, out_map);
    if (warp >= 2)
      zero_role<Config>(p, blockIdx.x * 2 + warp - 2, gridDim.x * 2, threadIdx.x % kWarpThreads);
  } else {
    ptx::setmaxnreg_inc<Config::Budget::kComputeRegisters>();
    SoftmaxRole<Config>{p, channels, warp / 4 - 1, threadIdx.x % kWarpgroupThreads}.run();
  }
}

}  // namespace jfa::kernels::sm90
