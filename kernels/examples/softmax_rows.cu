// Softmax of each row of a matrix: shuffles, shared memory and a block barrier in few lines.
namespace jfa::examples {

template <typename Combine>
__device__ float reduce_warp(float value, Combine combine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

// The same result in every thread of a block of `threads`; `warp_values` has one element a warp.
template <int threads, typename Combine>
__device__ float reduce_block(float value, float (&warp_values)[threads / 32], Combine combine) {
  value = reduce_warp(value, combine);
  __syncthreads();  // the values of the reduction before have been read
  if (threadIdx.x % 32 == 0) {
    warp_values[threadIdx.x / 32] = value;
  }
  __syncthreads();
  value = warp_values[0];
  for (int warp = 1; warp < threads / 32; ++warp) {
    value = combine(value, warp_values[warp]);
  }
  return value;
}

// in, out: [rows, columns], columns > 0. One block of `threads` a row: grid [rows].
template <int threads>
__global__ void __launch_bounds__(threads) softmax_rows(const float* in, float* out, int columns) {
  static_assert(threads % 32 == 0 && threads <= 1024, "whole warps, at most 32 of them");
  __shared__ float warp_values[threads / 32];
  const float* row = in + static_cast<long long>(blockIdx.x) * columns;
  float* out_row = out + static_cast<long long>(blockIdx.x) * columns;

  float largest = -3.402823466e38f;
  for (int i = threadIdx.x; i < columns; i += threads) {
    largest = fmaxf(largest, row[i]);
  }
  largest =
      reduce_block<threads>(largest, warp_values, [](float a, float b) { return fmaxf(a, b); });

  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += threads) {
    sum += __expf(row[i] - largest);
  }
  sum = reduce_block<threads>(sum, warp_values, [](float a, float b) { return a + b; });

  for (int i = threadIdx.x; i < columns; i += threads) {
    out_row[i] = __expf(row[i] - largest) / sum;
  }
}

}  // namespace jfa::examples
