// Sum of a vector: partial sums per CTA, added by the CTA that finishes last (fence, atomic counter).
#include "sm90.cuh"

constexpr int kThreads = 128;

extern "C" __global__ void __launch_bounds__(kThreads)
    last_block(const float4* x, float* partial, u32* counter, float* total, int n4) {
  __shared__ float by_warp[kThreads / 32];
  __shared__ bool last;
  const int thread = threadIdx.x;
  float sum = 0.0f;
  for (int i = blockIdx.x * kThreads + thread; i < n4; i += gridDim.x * kThreads) {
    const float4 value = x[i];
    sum += value.x + value.y + value.z + value.w;
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (thread % 32 == 0) by_warp[thread / 32] = sum;
  __syncthreads();
  if (thread == 0) {
    partial[blockIdx.x] = by_warp[0] + by_warp[1] + by_warp[2] + by_warp[3];
    __threadfence();
    last = atomicAdd(counter, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (last && thread == 0) {
    float all = 0.0f;
    for (int i = 0; i < static_cast<int>(gridDim.x); ++i) all += partial[i];
    *total = all;
  }
}
