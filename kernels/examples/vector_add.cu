// out[i] = a[i] + b[i]: the smallest kernel, to check that compiler, driver and launch work.
namespace jfa::examples {

// Any grid and block; a, b, out: [count].
extern "C" __global__ void vector_add(const float* a, const float* b, float* out, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    out[i] = a[i] + b[i];
  }
}

}  // namespace jfa::examples
