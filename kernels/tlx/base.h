// The ground of the tile language: fixed-width types, element types, and the qualifiers of device
// code. Includes nothing, so that kernels compile at run time without any CUDA header.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define TLX_DEVICE __device__ __forceinline__
#define TLX_HOST_DEVICE __host__ __device__ constexpr
#else
#define TLX_HOST_DEVICE constexpr
#endif

namespace jfa::tlx {

using i32 = int;
using u16 = unsigned short;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

// 16-bit floating-point elements: storage only; arithmetic happens in float32 registers and in the
// tensor core.
struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};

constexpr u32 kWarpThreads = 32;
constexpr u32 kWarpgroupThreads = 128;

// Bytes of shared memory that one CTA can have on sm_90 and sm_100.
constexpr u32 kSharedBytesPerCta = 227 * 1024;

TLX_HOST_DEVICE i32 ceil_div(i32 a, i32 b) {
  return (a + b - 1) / b;
}

template <typename A, typename B>
constexpr bool is_same = false;
template <typename A>
constexpr bool is_same<A, A> = true;

}  // namespace jfa::tlx
