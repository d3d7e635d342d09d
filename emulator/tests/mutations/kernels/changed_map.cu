// A tensor map made on the device: a copy of the parameter in shared memory gets another base address, goes to global
// memory, and loads a tile.
#include "sm90.cuh"

constexpr u32 kTileBytes = 32 * 32 * sizeof(float);

extern "C" __global__ void __launch_bounds__(32)
    changed_map(const __grid_constant__ TensorMap map, const float* x, TensorMap* changed, float* out) {
  __shared__ alignas(128) float tile[32 * 32];
  __shared__ alignas(128) TensorMap local;
  __shared__ u64 loaded;
  const int thread = threadIdx.x;
  if (thread < 16) local.words[thread] = map.words[thread];
  if (thread == 0) {
    mbarrier_init(&loaded, 1);
    fence_mbarrier_init();
  }
  __syncwarp();
  if (thread == 0) map_set_address(&local, x);
  __syncwarp();
  map_publish(changed, &local);
  if (thread == 0) {
    map_acquire(changed);
    mbarrier_expect(&loaded, kTileBytes);
    tma_load(tile, changed, 0, 0, &loaded);
  }
  __syncwarp();
  mbarrier_wait(&loaded, 0);
  for (int row = 0; row < 32; ++row) out[row * 32 + thread] = tile[row * 32 + thread];
}
