// out = relu(q k^T) v for one 64-row tile: the first product's accumulators become the second's A fragments,
// v is written to shared memory by ordinary stores.
#include "sm90.cuh"

constexpr u32 kTileBytes = 64 * 64 * 2;

struct Shared {
  u8 q[kTileBytes];
  u8 k[kTileBytes];
  u8 v[kTileBytes];  // v^T: rows are columns of v
  u64 loaded;
};

extern "C" __global__ void __launch_bounds__(128)
    two_products(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const uint4* v_transposed,
                 float* out) {
  extern __shared__ __align__(1024) u8 memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const int thread = threadIdx.x;
  if (thread == 0) {
    mbarrier_init(&shared.loaded, 1);
    fence_mbarrier_init();
    mbarrier_expect(&shared.loaded, 2 * kTileBytes);
    tma_load(shared.q, &q, 0, 0, &shared.loaded);
    tma_load(shared.k, &k, 0, 0, &shared.loaded);
  }
  // Row r, chunk c (16 bytes) goes to chunk c ^ (r % 8): the 128-byte swizzle.
  for (int i = thread; i < 64 * 8; i += 128) {
    const int r = i / 8, chunk = i % 8;
    reinterpret_cast<uint4*>(shared.v)[r * 8 + (chunk ^ (r % 8))] = v_transposed[i];
  }
  fence_async();
  __syncthreads();
  mbarrier_wait(&shared.loaded, 0);
  float s[32], o[32];
  for (int i = 0; i < 32; ++i) o[i] = 0.0f;
  wgmma_fence();
  for (int step = 0; step < 4; ++step) {
    wgmma_m64n64k16(s, matrix_descriptor(shared.q) + 2 * step, matrix_descriptor(shared.k) + 2 * step, step > 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  u32 p[4][4];
  for (int step = 0; step < 4; ++step) {
    for (int j = 0; j < 4; ++j) {
      const float low = s[8 * step + 2 * j], high = s[8 * step + 2 * j + 1];
      p[step][j] = pack_halves(low > 0.0f ? low : 0.0f, high > 0.0f ? high : 0.0f);
    }
  }
  wgmma_fence();
  for (int step = 0; step < 4; ++step) {
    wgmma_m64n64k16_registers(o, p[step], matrix_descriptor(shared.v) + 2 * step, true);
  }
  wgmma_commit();
  wgmma_wait<0>();
  const int lane = thread % 32;
  float* target = out + (thread / 32 * 16 + lane / 4) * 64 + lane % 4 * 2;
  for (int i = 0; i < 8; ++i) {
    target[i * 8] = o[4 * i];
    target[i * 8 + 1] = o[4 * i + 1];
    target[i * 8 + 8 * 64] = o[4 * i + 2];
    target[i * 8 + 8 * 64 + 1] = o[4 * i + 3];
  }
}
