// c[M, 64] = a[M, K] b[64, K]^T: one load warpgroup, two multiplying warpgroups, a ring of K slices.
#include "sm90.cuh"

constexpr int kStages = 2;
constexpr int kSlice = 64;  // K per slice: 128-byte rows of f16
constexpr u32 kTileBytes = 64 * kSlice * 2;

struct Shared {
  u8 a[kStages][2][kTileBytes];  // one tile per multiplying warpgroup
  u8 b[kStages][kTileBytes];
  u64 full[kStages];
  u64 empty[kStages];
};

extern "C" __global__ void __launch_bounds__(384, 1)
    gemm_roles(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c, int slices) {
  extern __shared__ __align__(1024) u8 memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const int thread = threadIdx.x;
  const int row = blockIdx.x * 128;
  if (thread == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(&shared.full[stage], 1);
      mbarrier_init(&shared.empty[stage], 2);  // one arrival per multiplying warpgroup
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  const int role = thread / 128;
  if (role == 0) {
    registers_release<40>();
    if (thread == 0) {
      for (int k = 0; k < slices; ++k) {
        const int stage = k % kStages;
        mbarrier_wait(&shared.empty[stage], (k / kStages & 1) ^ 1);
        mbarrier_expect(&shared.full[stage], 3 * kTileBytes);
        tma_load(shared.a[stage][0], &a, k * kSlice, row, &shared.full[stage]);
        tma_load(shared.a[stage][1], &a, k * kSlice, row + 64, &shared.full[stage]);
        tma_load(shared.b[stage], &b, k * kSlice, 0, &shared.full[stage]);
      }
    }
    return;
  }
  registers_claim<232>();
  const int group = role - 1;
  float d[32];
  for (int k = 0; k < slices; ++k) {
    const int stage = k % kStages;
    mbarrier_wait(&shared.full[stage], k / kStages & 1);
    wgmma_fence();
    for (int step = 0; step < kSlice / 16; ++step) {
      wgmma_m64n64k16(d, matrix_descriptor(shared.a[stage][group]) + 2 * step,
                      matrix_descriptor(shared.b[stage]) + 2 * step, k + step > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    if (thread % 128 == 0) mbarrier_arrive(&shared.empty[stage]);
  }
  const int lane = thread % 32;
  float* target = c + (row + group * 64 + thread % 128 / 32 * 16 + lane / 4) * 64 + lane % 4 * 2;
  for (int i = 0; i < 8; ++i) {
    target[i * 8] = d[4 * i];
    target[i * 8 + 1] = d[4 * i + 1];
    target[i * 8 + 8 * 64] = d[4 * i + 2];
    target[i * 8 + 8 * 64 + 1] = d[4 * i + 3];
  }
}
