// 1-D bulk copies: each CTA doubles its rows of x and adds column sums into `sums` with a bulk reduction.
#include "sm90.cuh"

constexpr int kColumns = 128;  // one per thread
constexpr u32 kRowBytes = kColumns * sizeof(float);

extern "C" __global__ void __launch_bounds__(kColumns)
    bulk_ring(const float* x, float* out, float* sums, int rows_per_cta) {
  __shared__ alignas(16) float row_in[2][kColumns];
  __shared__ alignas(16) float row_out[2][kColumns];
  __shared__ alignas(16) float total[kColumns];
  __shared__ u64 full[2];
  const int thread = threadIdx.x;
  const int first = blockIdx.x * rows_per_cta;
  if (thread == 0) {
    mbarrier_init(&full[0], 1);
    mbarrier_init(&full[1], 1);
    fence_mbarrier_init();
    mbarrier_expect(&full[0], kRowBytes);
    bulk_load(row_in[0], x + first * kColumns, kRowBytes, &full[0]);
  }
  __syncthreads();
  float sum = 0.0f;
  for (int row = 0; row < rows_per_cta; ++row) {
    const int slot = row & 1;
    if (thread == 0) {
      if (row + 1 < rows_per_cta) {
        mbarrier_expect(&full[slot ^ 1], kRowBytes);
        bulk_load(row_in[slot ^ 1], x + (first + row + 1) * kColumns, kRowBytes, &full[slot ^ 1]);
      }
      bulk_wait_read<1>();  // the store of two rows ago has read its buffer
    }
    mbarrier_wait(&full[slot], row >> 1 & 1);
    __syncthreads();
    const float value = row_in[slot][thread];
    sum += value;
    row_out[slot][thread] = 2.0f * value;
    fence_async();
    __syncthreads();
    if (thread == 0) {
      bulk_store(out + (first + row) * kColumns, row_out[slot], kRowBytes);
      bulk_commit();
    }
  }
  total[thread] = sum;
  fence_async();
  __syncthreads();
  if (thread == 0) {
    bulk_reduce_add(sums, total, kRowBytes);
    bulk_commit();
    bulk_wait_read<0>();
  }
}
