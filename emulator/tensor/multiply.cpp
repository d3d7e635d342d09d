// Instantiates the float kernels for the baseline and, on x86-64 with GCC, for AVX2 with FMA.
// Products of the formats involved are exact in binary32 (subnormal products aside), so fused and
// separate multiply-add give the same sums.
#include "tensor/multiply.hpp"

namespace ptxemu::tensor {

namespace baseline {
#include "tensor/multiply_kernel.inc"
}  // namespace baseline

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define PTXEMU_HAVE_AVX2 1
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
#include "tensor/multiply_kernel.inc"
}  // namespace avx2
#pragma GCC pop_options
#endif

const FloatKernels& baseline_float_kernels() {
  return baseline::kFloatKernels;
}

const FloatKernels& float_kernels() {
#ifdef PTXEMU_HAVE_AVX2
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2) return avx2::kFloatKernels;
#endif
  return baseline_float_kernels();
}

}  // namespace ptxemu::tensor
