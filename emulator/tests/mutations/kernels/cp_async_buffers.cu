// cp.async with two buffers: out[r] = x[r] reversed, one row of 128 floats at a time per CTA.
#include "sm90.cuh"

constexpr int kColumns = 128;

extern "C" __global__ void __launch_bounds__(kColumns) cp_async_buffers(const float* x, float* out, int rows) {
  __shared__ alignas(16) float buffer[2][kColumns];
  const int thread = threadIdx.x;
  x += blockIdx.x * rows * kColumns;
  out += blockIdx.x * rows * kColumns;
  const bool copies = thread < kColumns / 4;
  if (copies) cp_async16(&buffer[0][thread * 4], x + thread * 4);
  cp_async_commit();
  for (int row = 0; row < rows; ++row) {
    if (copies && row + 1 < rows) {
      cp_async16(&buffer[(row + 1) & 1][thread * 4], x + (row + 1) * kColumns + thread * 4);
    }
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    out[row * kColumns + thread] = buffer[row & 1][kColumns - 1 - thread];
    __syncthreads();
  }
  cp_async_wait<0>();
}
