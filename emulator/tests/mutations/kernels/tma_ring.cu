// A ring of TMA loads, a change by ordinary threads, and TMA stores: out = 2 in + 1, tile by tile.
#include "sm90.cuh"

constexpr int kTile = 32;    // rows and columns of float
constexpr int kStages = 2;
constexpr int kWorkers = 64;  // threads that change tiles; one more warp loads
constexpr u32 kTileBytes = kTile * kTile * sizeof(float);

extern "C" __global__ void __launch_bounds__(kWorkers + 32)
    tma_ring(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out, int tiles) {
  __shared__ alignas(128) float loaded[kStages][kTile * kTile];
  __shared__ alignas(128) float changed[kTile * kTile];
  __shared__ u64 full[kStages];
  __shared__ u64 empty[kStages];
  const int thread = threadIdx.x;
  if (thread == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], kWorkers);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (thread >= kWorkers) {  // the loading warp
    if (thread == kWorkers) {
      for (int tile = 0; tile < tiles; ++tile) {
        const int stage = tile % kStages;
        mbarrier_wait(&empty[stage], (tile / kStages & 1) ^ 1);
        mbarrier_expect(&full[stage], kTileBytes);
        tma_load(loaded[stage], &in, 0, tile * kTile, &full[stage]);
      }
    }
    return;
  }
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % kStages;
    mbarrier_wait(&full[stage], tile / kStages & 1);
    if (tile > 0 && thread == 0) bulk_wait_read<0>();
    named_sync(1, kWorkers);
    for (int i = thread; i < kTile * kTile; i += kWorkers) changed[i] = 2.0f * loaded[stage][i] + 1.0f;
    mbarrier_arrive(&empty[stage]);
    fence_async();
    named_sync(1, kWorkers);
    if (thread == 0) {
      tma_store(&out, 0, tile * kTile, changed);
      bulk_commit();
    }
  }
  if (thread == 0) bulk_wait_read<0>();
}
