// Register-blocked matrix products: C = A·B, C += A·B or C = f·C + A·B in float32. A block of C
// stays in registers over the whole depth: 6 rows × 2 vectors with 16 vector registers (12
// accumulators, 2 of B, 1 of A), 12 × 2 with 32. Per step of the depth that is 12 multiply-adds for
// 8 loads on AVX2, where a core can start 2 multiply-adds and 2 loads a cycle: the products can run
// at the peak as long as B comes from L1 and A from L1 or L2. Blocks of fewer rows take more
// vectors, or their sums would wait for each other.
#if defined(JFA_CPU_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef JFA_CPU_PRODUCT_INL_H_
#undef JFA_CPU_PRODUCT_INL_H_
#else
#define JFA_CPU_PRODUCT_INL_H_
#endif

#include <hwy/cache_control.h>

#include <cstdint>

#include "cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace jfa::cpu::HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3  // better targets have smaller numbers
constexpr int kBlockRows = 12;
#else
constexpr int kBlockRows = 6;
#endif

enum class Update { assign, add, rescale };
// How A lies in memory: `rows`: A(i, k) = a[i·lda + k]; `columns`: A(i, k) = a[k·lda + i].
enum class Order { rows, columns };

template <Update kUpdate, Order kOrder, int kRows, int kVectors>
HWY_NOINLINE void product_block(std::int64_t depth, const float* HWY_RESTRICT a, std::int64_t lda,
                                const float* HWY_RESTRICT b, std::int64_t ldb,
                                float* HWY_RESTRICT c, std::int64_t ldc,
                                const float* HWY_RESTRICT factor) {
  const Floats f32;
  FloatVector sum[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    if constexpr (kUpdate != Update::assign) hwy::Prefetch(c + i * ldc);
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::Zero(f32);
  }
#pragma GCC unroll 4
  for (std::int64_t k = 0; k < depth; ++k) {
    FloatVector right[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) right[j] = hn::LoadU(f32, b + j * kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const FloatVector left = hn::Set(f32, kOrder == Order::rows ? a[i * lda] : a[i]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
    a += kOrder == Order::rows ? 1 : lda;
    b += ldb;
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * ldc + j * kLanes;
      if constexpr (kUpdate == Update::add) {
        sum[i][j] = hn::Add(sum[i][j], hn::LoadU(f32, to));
      } else if constexpr (kUpdate == Update::rescale) {
        sum[i][j] = hn::MulAdd(hn::LoadU(f32, to), hn::Set(f32, factor[i]), sum[i][j]);
      }
      hn::StoreU(sum[i][j], f32, to);
    }
  }
}

// One register block of any size up to kBlockRows × kPanel; 7 to 11 rows take two.
template <Update kUpdate, Order kOrder, int kRows = kBlockRows>
HWY_INLINE void product_rows(std::int64_t rows, std::int64_t vectors, std::int64_t depth,
                             const float* HWY_RESTRICT a, std::int64_t lda,
                             const float* HWY_RESTRICT b, std::int64_t ldb, float* HWY_RESTRICT c,
                             std::int64_t ldc, const float* HWY_RESTRICT factor) {
  if (rows >= kRows) {
    if (vectors == 2) {
      product_block<kUpdate, kOrder, kRows, 2>(depth, a, lda, b, ldb, c, ldc, factor);
    } else {
      product_block<kUpdate, kOrder, kRows, 1>(depth, a, lda, b, ldb, c, ldc, factor);
    }
    if (rows == kRows) return;
    a += kOrder == Order::rows ? kRows * lda : kRows;
    c += kRows * ldc;
    factor += kRows;
    rows -= kRows;
  }
  if constexpr (kRows > 1) {
    constexpr int kFewer = kRows > 6 ? 6 : kRows - 1;
    product_rows<kUpdate, kOrder, kFewer>(rows, vectors, depth, a, lda, b, ldb, c, ldc, factor);
  }
}

}  // namespace jfa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
