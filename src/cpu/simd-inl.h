// Vector building blocks of the CPU engine: conversion of rows between memory and float32, exp2,
// and the transposition of key panels. Compiled once per instruction set (Highway's
// foreach_target).
#if defined(JFA_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef JFA_CPU_SIMD_INL_H_
#undef JFA_CPU_SIMD_INL_H_
#else
#define JFA_CPU_SIMD_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "cpu/engine.hpp"

HWY_BEFORE_NAMESPACE();
namespace jfa::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Floats>;
constexpr std::int64_t kLanes = hn::MaxLanes(Floats());
// A panel is the columns that one register block of a product covers.
constexpr std::int64_t kPanel = 2 * kLanes;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// 2^x to 1 ulp for x ≤ 127; 0 below −126.5; NaN stays NaN. x = n + f with whole n and |f| ≤ ½; 2^f
// is a minimax polynomial of degree 5 (7.5e-8), and n + 127 sits in the low bits of x + magic, from
// where a shift makes it the exponent.
HWY_INLINE FloatVector exp2_of(FloatVector x) {
  const Floats f32;
  const hn::RebindToUnsigned<Floats> u32;
  const FloatVector magic = hn::Set(f32, 12582912.0F + 127.0F);
  x = hn::Max(hn::Set(f32, -127.0F), x);
  const FloatVector shifted = hn::Add(x, magic);
  const FloatVector f = hn::Sub(x, hn::Sub(shifted, magic));
  FloatVector p = hn::Set(f32, 0.0013276471736249733F);
  p = hn::MulAdd(p, f, hn::Set(f32, 0.00967554154018481F));
  p = hn::MulAdd(p, f, hn::Set(f32, 0.05550713276097675F));
  p = hn::MulAdd(p, f, hn::Set(f32, 0.2402211972007281F));
  p = hn::MulAdd(p, f, hn::Set(f32, 0.6931469670620392F));
  p = hn::MulAdd(p, f, hn::Set(f32, 1.0000000716554327F));
  return hn::Mul(p, hn::BitCast(f32, hn::ShiftLeft<23>(hn::BitCast(u32, shifted))));
}

HWY_INLINE FloatVector float_from_bfloat16(const std::uint16_t* HWY_RESTRICT from) {
  const Floats f32;
  const hn::RebindToUnsigned<Floats> u32;
  const hn::Rebind<std::uint16_t, Floats> u16;
  return hn::BitCast(f32, hn::ShiftLeft<16>(hn::PromoteTo(u32, hn::LoadU(u16, from))));
}

HWY_INLINE FloatVector float_from_half(const std::uint16_t* HWY_RESTRICT from) {
  const hn::Rebind<hwy::float16_t, Floats> f16;
  return hn::PromoteTo(Floats(), hn::LoadU(f16, reinterpret_cast<const hwy::float16_t*>(from)));
}

// Rounds to nearest even; NaN becomes the quiet NaN.
HWY_INLINE void store_bfloat16(FloatVector value, std::uint16_t* HWY_RESTRICT to) {
  const hn::RebindToUnsigned<Floats> u32;
  const hn::RebindToSigned<Floats> i32;
  const hn::Rebind<std::uint16_t, Floats> u16;
  const auto bits = hn::BitCast(u32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
  auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7FFF))));
  rounded = hn::IfThenElse(hn::RebindMask(u32, hn::IsNaN(value)), hn::Set(u32, 0x7FC0), rounded);
  hn::StoreU(hn::DemoteTo(u16, hn::BitCast(i32, rounded)), u16, to);
}

HWY_INLINE void store_half(FloatVector value, std::uint16_t* HWY_RESTRICT to) {
  const hn::Rebind<hwy::float16_t, Floats> f16;
  hn::StoreU(hn::DemoteTo(f16, value), f16, reinterpret_cast<hwy::float16_t*>(to));
}

// Converts `width` elements to float32 and writes zeros up to `padded`, a multiple of kLanes.
// `Load` reads kLanes elements; nothing behind from[width − 1] is touched.
template <typename T, typename Load>
HWY_INLINE void load_row(const T* HWY_RESTRICT from, std::int64_t width, std::int64_t padded,
                         float* HWY_RESTRICT to, const Load& load) {
  const Floats f32;
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) hn::StoreU(load(from + i), f32, to + i);
  if (i < width) {
    std::array<T, static_cast<std::size_t>(kLanes)> tail{};
    std::memcpy(tail.data(), from + i, static_cast<std::size_t>(width - i) * sizeof(T));
    hn::StoreU(load(tail.data()), f32, to + i);
    i += kLanes;
  }
  for (; i < padded; i += kLanes) hn::StoreU(hn::Zero(f32), f32, to + i);
}

template <typename T>
HWY_INLINE const T* element(const Rows& rows, std::int64_t row) {
  return static_cast<const T*>(rows.data) + row * rows.row_stride;
}

// Rows of one head lie a row of all heads apart, which hardware prefetchers do not follow: asks for
// the row kRowsAhead behind row `i` of `count`.
constexpr std::int64_t kRowsAhead = 12;
template <typename T>
HWY_INLINE void prefetch_row(const T* row, std::int64_t row_stride, std::int64_t i,
                             std::int64_t count, std::int64_t width) {
  if (i + kRowsAhead >= count) return;
  constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t d = 0; d < width; d += line) {
    hwy::Prefetch(row + kRowsAhead * row_stride + d);
  }
}

// The same for row `row` of a gradient, whose lines have to be read before they are written; `end`
// is behind the last row.
HWY_INLINE void prefetch_written_row(const Rows& rows, std::int64_t row, std::int64_t end) {
  if (row + kRowsAhead >= end) return;
  const std::int64_t size = size_of(rows.dtype);
  const char* ahead =
      static_cast<const char*>(rows.data) + (row + kRowsAhead) * rows.row_stride * size;
  for (std::int64_t byte = 0; byte < rows.width * size; byte += 64) {
    __builtin_prefetch(ahead + byte, 1);
  }
}

// Rows [first, first + count) of `rows` as float32, `stride` floats apart, padded with zeros.
HWY_INLINE void load_rows(const Rows& rows, std::int64_t first, std::int64_t count,
                          std::int64_t padded, float* HWY_RESTRICT to, std::int64_t stride) {
  const std::int64_t width = rows.width;
  if (rows.column_stride != 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t d = 0; d < width; ++d) to[i * stride + d] = rows.at(first + i, d);
      for (std::int64_t d = width; d < padded; ++d) to[i * stride + d] = 0;
    }
    return;
  }
  switch (rows.dtype) {
    case DType::float32:
      for (std::int64_t i = 0; i < count; ++i) {
        prefetch_row(element<float>(rows, first + i), rows.row_stride, i, count, width);
        load_row(element<float>(rows, first + i), width, padded, to + i * stride,
                 [](const float* from) HWY_ATTR { return hn::LoadU(Floats(), from); });
      }
      return;
    case DType::bfloat16:
      for (std::int64_t i = 0; i < count; ++i) {
        prefetch_row(element<std::uint16_t>(rows, first + i), rows.row_stride, i, count, width);
        load_row(element<std::uint16_t>(rows, first + i), width, padded, to + i * stride,
                 [](const std::uint16_t* from) HWY_ATTR { return float_from_bfloat16(from); });
      }
      return;
    default:
      for (std::int64_t i = 0; i < count; ++i) {
        load_row(element<std::uint16_t>(rows, first + i), width, padded, to + i * stride,
                 [](const std::uint16_t* from) HWY_ATTR { return float_from_half(from); });
      }
  }
}

template <typename T, typename Store>
HWY_INLINE void store_row(const float* HWY_RESTRICT from, float factor, std::int64_t width,
                          T* HWY_RESTRICT to, const Store& store) {
  const Floats f32;
  const FloatVector scale = hn::Set(f32, factor);
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    store(hn::Mul(hn::LoadU(f32, from + i), scale), to + i);
  }
  if (i < width) {
    std::array<T, static_cast<std::size_t>(kLanes)> tail;
    store(hn::Mul(hn::LoadU(f32, from + i), scale), tail.data());
    std::memcpy(to + i, tail.data(), static_cast<std::size_t>(width - i) * sizeof(T));
  }
}

// Writes factor · from[0 … width) to row `row`; `from` is readable up to a multiple of kLanes.
HWY_INLINE void store_row(const Rows& rows, std::int64_t row, const float* HWY_RESTRICT from,
                          float factor) {
  switch (rows.dtype) {
    case DType::float32:
      store_row(from, factor, rows.width, const_cast<float*>(element<float>(rows, row)),
                [](FloatVector v, float* to) HWY_ATTR { hn::StoreU(v, Floats(), to); });
      return;
    case DType::bfloat16:
      store_row(from, factor, rows.width,
                const_cast<std::uint16_t*>(element<std::uint16_t>(rows, row)),
                [](FloatVector v, std::uint16_t* to) HWY_ATTR { store_bfloat16(v, to); });
      return;
    default:
      store_row(from, factor, rows.width,
                const_cast<std::uint16_t*>(element<std::uint16_t>(rows, row)),
                [](FloatVector v, std::uint16_t* to) HWY_ATTR { store_half(v, to); });
  }
}

// 4×4 floats from rows `stride` apart to rows kPanel apart, transposed.
HWY_INLINE void transpose_4x4(const float* HWY_RESTRICT from, std::int64_t stride,
                              float* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t d = 0; d < 4; ++d) to[d * kPanel + i] = from[i * stride + d];
  }
#else
  const hn::FixedTag<float, 4> f32x4;
  const hn::FixedTag<double, 2> f64x2;
  const auto r0 = hn::LoadU(f32x4, from);
  const auto r1 = hn::LoadU(f32x4, from + stride);
  const auto r2 = hn::LoadU(f32x4, from + 2 * stride);
  const auto r3 = hn::LoadU(f32x4, from + 3 * stride);
  const auto a = hn::BitCast(f64x2, hn::InterleaveLower(f32x4, r0, r1));
  const auto b = hn::BitCast(f64x2, hn::InterleaveLower(f32x4, r2, r3));
  const auto c = hn::BitCast(f64x2, hn::InterleaveUpper(f32x4, r0, r1));
  const auto d = hn::BitCast(f64x2, hn::InterleaveUpper(f32x4, r2, r3));
  hn::StoreU(hn::BitCast(f32x4, hn::InterleaveLower(f64x2, a, b)), f32x4, to);
  hn::StoreU(hn::BitCast(f32x4, hn::InterleaveUpper(f64x2, a, b)), f32x4, to + kPanel);
  hn::StoreU(hn::BitCast(f32x4, hn::InterleaveLower(f64x2, c, d)), f32x4, to + 2 * kPanel);
  hn::StoreU(hn::BitCast(f32x4, hn::InterleaveUpper(f64x2, c, d)), f32x4, to + 3 * kPanel);
#endif
}

// Asks for rows that the next block needs, a few lines at a time between the products of this one:
// rows of one head lie far apart, where hardware prefetchers do not follow. 4 % of a backward pass.
class RowPrefetcher {
 public:
  // `calls` is how often step() will be called.
  void plan(std::int64_t calls) {
    std::int64_t lines = 0;
    for (const Stretch& stretch : stretches_) lines += stretch.rows * lines_of(stretch);
    lines_a_step_ = calls > 0 ? (lines + calls - 1) / calls : 0;
  }
  void add(const Rows& rows, std::int64_t first, std::int64_t count) {
    if (count <= 0 || used_ == stretches_.size()) return;
    const std::int64_t size = size_of(rows.dtype);
    stretches_[used_++] = {static_cast<const char*>(rows.data) + first * rows.row_stride * size,
                           rows.row_stride * size, rows.width * size, count};
  }
  HWY_INLINE void step() {
    for (std::int64_t n = 0; n < lines_a_step_ && at_ < used_; ++n) {
      Stretch& stretch = stretches_[at_];
      __builtin_prefetch(stretch.row + offset_, 0, 2);  // into L2: L1 is full of this block
      offset_ += 64;
      if (offset_ < stretch.bytes) continue;
      offset_ = 0;
      stretch.row += stretch.stride;
      if (--stretch.rows == 0) ++at_;
    }
  }

 private:
  struct Stretch {
    const char* row = nullptr;
    std::int64_t stride = 0;
    std::int64_t bytes = 0;
    std::int64_t rows = 0;
  };
  static std::int64_t lines_of(const Stretch& stretch) { return (stretch.bytes + 63) / 64; }

  std::array<Stretch, 4> stretches_;
  std::size_t used_ = 0;
  std::size_t at_ = 0;
  std::int64_t offset_ = 0;
  std::int64_t lines_a_step_ = 0;
};

// Packs `count` rows of `width` floats (readable up to a multiple of 4) as transposed panels
// [count / kPanel][width][kPanel]; the columns of missing rows are zero. `panels` has room for a
// multiple of 4 in width. Rows up to `prefetch_rows` are asked for ahead of their use.
HWY_INLINE void pack_transposed(const float* HWY_RESTRICT rows, std::int64_t stride,
                                std::int64_t count, std::int64_t width, std::int64_t panel_size,
                                float* HWY_RESTRICT panels, std::int64_t prefetch_rows = 0) {
  for (std::int64_t first = 0; first < count; first += kPanel, panels += panel_size) {
    const std::int64_t here = std::min(kPanel, count - first);
    const float* HWY_RESTRICT from = rows + first * stride;
    std::int64_t i = 0;
    for (; i + 4 <= here; i += 4) {
      for (std::int64_t ahead = 0; ahead < 4; ++ahead) {
        prefetch_row(from + (i + ahead) * stride, stride, first + i + ahead, prefetch_rows, width);
      }
      for (std::int64_t d = 0; d < width; d += 4) {
        transpose_4x4(from + i * stride + d, stride, panels + d * kPanel + i);
      }
    }
    for (; i < kPanel; ++i) {
      if (i < here) {
        for (std::int64_t d = 0; d < width; ++d) panels[d * kPanel + i] = from[i * stride + d];
      } else {
        for (std::int64_t d = 0; d < width; ++d) panels[d * kPanel + i] = 0;
      }
    }
  }
}

// Rows [first, first + count) as transposed panels: float32 from where they lie, others by way of
// `scratch`, which holds kPanel rows.
HWY_INLINE void load_panels(const Rows& rows, std::int64_t first, std::int64_t count,
                            float* HWY_RESTRICT scratch, std::int64_t scratch_stride,
                            float* HWY_RESTRICT panels) {
  const bool direct =
      rows.dtype == DType::float32 && rows.width % 4 == 0 && rows.column_stride == 1;
  const std::int64_t panel_size = round_up(rows.width, 4) * kPanel;
  if (direct) {
    pack_transposed(element<float>(rows, first), rows.row_stride, count, rows.width, panel_size,
                    panels, count);
    return;
  }
  for (std::int64_t j = 0; j < count; j += kPanel, panels += panel_size) {
    const std::int64_t here = std::min(kPanel, count - j);
    load_rows(rows, first + j, here, round_up(rows.width, kLanes), scratch, scratch_stride);
    pack_transposed(scratch, scratch_stride, here, rows.width, panel_size, panels);
  }
}

}  // namespace jfa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
