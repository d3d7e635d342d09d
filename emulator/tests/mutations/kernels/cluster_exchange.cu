// A cluster of two CTAs: each publishes a row in its shared memory and reads the other's.
#include "sm90.cuh"

extern "C" __global__ void __launch_bounds__(64) __cluster_dims__(2, 1, 1)
    cluster_exchange(const float* x, float* out) {
  __shared__ float row[64];
  const int thread = threadIdx.x;
  const u32 rank = cluster_rank();
  row[thread] = x[blockIdx.x * 64 + thread];
  cluster_arrive();
  cluster_wait();
  const float other = load_remote(&row[63 - thread], rank ^ 1);
  cluster_arrive();
  cluster_wait();
  row[thread] = 0.0f;
  out[blockIdx.x * 64 + thread] = other;
}
