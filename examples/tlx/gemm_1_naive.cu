// Step 1, naive: C[M, N] = A[M, K] · B[N, K]ᵀ with the tensor core and nothing else. All threads
// copy both tiles to shared memory, wait, multiply, wait. K: a multiple of 8.
#include "tlx/dot.h"

namespace jfa::examples {

using namespace jfa::tlx;

constexpr u32 kRows = 128, kColumns = 256, kDepth = 64;  // of one CTA's tile and of one step of K
constexpr u32 kGroups = kRows / 64;                      // warpgroups, 64 rows each
constexpr u32 kThreads = kGroups * kWarpgroupThreads;
using TileA = TileLayout<bf16, kRows, kDepth>;
using TileB = TileLayout<bf16, kColumns, kDepth>;

struct alignas(16) Chunk {
  u64 bits[2];
};

// Rows first_row … and columns first_column … of a row-major matrix, 16 bytes at a time; zeros
// beyond its end.
template <typename Tile>
TLX_DEVICE void copy_tile(char* tile, const bf16* matrix, u32 rows, u32 columns, u32 first_row,
                          u32 first_column) {
  for (u32 i = threadIdx.x; i < Tile::kBytes / 16; i += kThreads) {
    const u32 row = i / (kDepth / 8), column = i % (kDepth / 8) * 8;
    const bool inside = first_row + row < rows && first_column + column < columns;
    const u64 element = u64{first_row + row} * columns + first_column + column;
    *reinterpret_cast<Chunk*>(tile + Tile::offset(row, column)) =
        inside ? *reinterpret_cast<const Chunk*>(matrix + element) : Chunk{};
  }
}

// Grid: (tiles of M, tiles of N).
__global__ void __launch_bounds__(kThreads, 1)
    gemm_naive(const bf16* a, const bf16* b, bf16* c, u32 m, u32 n, u32 k) {
  extern __shared__ __align__(1024) char shared[];
  char* const tile_a = shared;
  char* const tile_b = shared + TileA::kBytes;
  const u32 row = blockIdx.x * kRows, column = blockIdx.y * kColumns;
  const u32 first_row = ptx::uniform(threadIdx.x / kWarpgroupThreads) * 64;

  Accumulator<kColumns> acc{};
  for (u32 step = 0; step < k; step += kDepth) {
    copy_tile<TileA>(tile_a, a, m, k, row, step);
    copy_tile<TileB>(tile_b, b, n, k, column, step);
    ptx::fence_proxy_async_shared();  // the tensor core reads what threads wrote
    __syncthreads();
    acc.pin();
    ptx::wgmma_fence();
    async_dot_nt<bf16, TileA, TileB, kDepth>(acc, ptx::shared_address(tile_a), first_row,
                                             ptx::shared_address(tile_b), true);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    acc.pin();
    __syncthreads();  // all have read the tiles
  }
#pragma unroll
  for (u32 i = 0; i < acc.kRegisters; i += 2) {
    const u32 i_row = row + first_row + acc.row(threadIdx.x, acc.half(i));
    const u32 i_column = column + acc.column(threadIdx.x, i);
    if (i_row >= m || i_column >= n) continue;
    *reinterpret_cast<u32*>(c + u64{i_row} * n + i_column) =
        ptx::pack<bf16>(acc.d[i], acc.d[i + 1]);
  }
}

}  // namespace jfa::examples
