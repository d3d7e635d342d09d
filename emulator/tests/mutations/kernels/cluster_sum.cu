// A cluster of two CTAs: one TMA load feeds both (multicast), each sums half of every row, the first CTA adds the
// other's sums through distributed shared memory.
#include "sm90.cuh"

constexpr int kRows = 64;     // one per thread
constexpr int kColumns = 32;  // floats
constexpr u32 kTileBytes = kRows * kColumns * sizeof(float);

extern "C" __global__ void __launch_bounds__(kRows) __cluster_dims__(2, 1, 1)
    cluster_sum(const __grid_constant__ TensorMap x, float* sums) {
  __shared__ alignas(128) float tile[kRows * kColumns];
  __shared__ float partial[kRows];
  __shared__ u64 loaded;
  __shared__ u64 ready;
  const int thread = threadIdx.x;
  const u32 rank = cluster_rank();
  if (thread == 0) {
    mbarrier_init(&loaded, 1);
    mbarrier_init(&ready, kRows);
    fence_mbarrier_init();
    mbarrier_expect(&loaded, kTileBytes);
  }
  cluster_arrive_relaxed();
  cluster_wait();
  __syncthreads();
  if (rank == 0 && thread == 0) {
    tma_load_multicast(tile, &x, 0, blockIdx.x / 2 * kRows, &loaded, 3);
  }
  mbarrier_wait(&loaded, 0);
  float sum = 0.0f;
  for (int i = 0; i < kColumns / 2; ++i) sum += tile[thread * kColumns + rank * (kColumns / 2) + i];
  if (rank == 1) {
    store_remote(&partial[thread], 0, sum);
    mbarrier_arrive_remote(&ready, 0);
  } else {
    mbarrier_wait_cluster(&ready, 0);
    sums[blockIdx.x / 2 * kRows + thread] = sum + partial[thread];
  }
  cluster_arrive();
  cluster_wait();
}
