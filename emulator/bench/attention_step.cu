// Source of attention_step.ptx: steps of 128 queries × 128 keys, D = 128, as two warpgroups do them:
// S = Q Kᵀ by wgmma from shared memory, online softmax in registers, O += P V with P in registers.
// Loads are bulk copies behind an mbarrier. The result is only used to keep the work alive.
//   nvcc -arch=sm_90a -ptx -lineinfo attention_step.cu -o attention_step.ptx
#include <cstdint>

namespace {

constexpr int kTileBytes = 128 * 128 * 2;

__device__ uint64_t descriptor(uint32_t address) {
  // 128-byte swizzle, 8-row groups 1024 bytes apart.
  return (uint64_t{address} & 0x3FFFF) >> 4 | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62;
}

#define ACC8(a, i) "+f"(a[i]), "+f"(a[i + 1]), "+f"(a[i + 2]), "+f"(a[i + 3]), "+f"(a[i + 4]), "+f"(a[i + 5]), "+f"(a[i + 6]), "+f"(a[i + 7])
#define ACC64(a) ACC8(a, 0), ACC8(a, 8), ACC8(a, 16), ACC8(a, 24), ACC8(a, 32), ACC8(a, 40), ACC8(a, 48), ACC8(a, 56)
#define REGS64 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"

__device__ void wgmma_ss(float (&d)[64], uint64_t a, uint64_t b, int accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " REGS64 ", %64, %65, p, 1, 1, 0, 0; }"
               : ACC64(d) : "l"(a), "l"(b), "r"(accumulate));
}
__device__ void wgmma_rs(float (&d)[64], const uint32_t* a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " REGS64 ", {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
               : ACC64(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ uint32_t pack(float low, float high) {
  uint32_t d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}
__device__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ void wait(uint32_t barrier, uint32_t parity) {
  asm volatile("{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra WAIT; }" ::"r"(barrier), "r"(parity) : "memory");
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) attention_steps(const void* q, const void* k, const void* v, float* out, int steps) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barrier;
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const uint32_t full = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  const uint32_t q_at = base, k_at = base + kTileBytes, v_at = base + 2 * kTileBytes;
  const auto copy = [&](uint32_t to, const void* from) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(kTileBytes), "r"(full) : "memory");
  };
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(full) : "memory");
  }
  __syncthreads();
  const uint32_t group = threadIdx.x / 128;
  float o[64] = {}, maximum[2] = {-1e30f, -1e30f}, sum[2] = {};
  for (int step = 0; step < steps; ++step) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(3 * kTileBytes) : "memory");
      copy(q_at, q);
      copy(k_at, k);
      copy(v_at, v);
    }
    wait(full, step & 1);
    float s[64];
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // K in steps of 16; 64 columns (128 bytes) per 16 KB half
      const uint32_t along = (i / 4) * (kTileBytes / 2) + (i % 4) * 32;
      wgmma_ss(s, descriptor(q_at + group * 8192 + along), descriptor(k_at + along), i != 0);
    }
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    float rescale[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float m = maximum[r];
#pragma unroll
      for (int i = 0; i < 64; i += 4) m = fmaxf(m, fmaxf(s[i + 2 * r], s[i + 2 * r + 1]));
      m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
      m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
      rescale[r] = exp2_approx((maximum[r] - m) * 0.1275f);
      maximum[r] = m;
      sum[r] *= rescale[r];
#pragma unroll
      for (int i = 0; i < 64; i += 4) {
        s[i + 2 * r] = exp2_approx(s[i + 2 * r] * 0.1275f - m * 0.1275f);
        s[i + 2 * r + 1] = exp2_approx(s[i + 2 * r + 1] * 0.1275f - m * 0.1275f);
        sum[r] += s[i + 2 * r] + s[i + 2 * r + 1];
      }
    }
#pragma unroll
    for (int i = 0; i < 64; ++i) o[i] *= rescale[i / 2 % 2];
    uint32_t p[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) p[i] = pack(s[2 * i], s[2 * i + 1]);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 8; ++i) wgmma_rs(o, p + 4 * i, descriptor(v_at + i * 2048));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) out[(blockIdx.x * 256 + threadIdx.x) * 64 + i] = o[i] / sum[i / 2 % 2];
}
