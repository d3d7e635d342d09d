// Each warp reverses its own 128 floats through shared memory: 16-byte stores, 4-byte loads.
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(64) warp_tiles(const float4* x, float* out, int tiles) {
  __shared__ alignas(16) float tile[2][32 * 4];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int index = blockIdx.x * 2 + warp;
  if (index >= tiles) return;
  *reinterpret_cast<float4*>(&tile[warp][lane * 4]) = x[index * 32 + lane];
  __syncwarp();
  for (int i = 0; i < 4; ++i) out[index * 128 + i * 32 + lane] = tile[warp][127 - i * 32 - lane];
}
