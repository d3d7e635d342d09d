// The two products of a forward block in bfloat16, on tiles (amx.hpp): Q as it is, K and V as pairs
// of the elements that meet in one multiply-add, P rounded to bfloat16 as on GPUs. Sums are
// float32.
#if defined(JFA_CPU_TILE_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef JFA_CPU_TILE_PRODUCTS_INL_H_
#undef JFA_CPU_TILE_PRODUCTS_INL_H_
#else
#define JFA_CPU_TILE_PRODUCTS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/amx.hpp"
#include "cpu/score-inl.h"

HWY_BEFORE_NAMESPACE();
namespace jfa::cpu::HWY_NAMESPACE {

// Rows as they are, up to a multiple of 16 with zeros.
HWY_INLINE void load_tile_rows(const Rows& rows, std::int64_t first, std::int64_t count,
                               std::uint16_t* HWY_RESTRICT to, std::int64_t stride) {
  const auto bytes = static_cast<std::size_t>(rows.width) * sizeof(std::uint16_t);
  for (std::int64_t i = 0; i < round_up(count, 16); ++i) {
    if (i < count) {
      std::memcpy(to + i * stride, element<std::uint16_t>(rows, first + i), bytes);
    } else {
      std::memset(to + i * stride, 0, bytes);
    }
  }
}

// Panels of transposed rows as pack_transposed makes them of floats, with two elements in each.
// `row_scratch` holds 32 rows.
HWY_INLINE void pack_pairs(const Rows& rows, std::int64_t begin, std::int64_t count,
                           float* HWY_RESTRICT row_scratch, std::int64_t scratch_stride,
                           float* HWY_RESTRICT panels) {
  const bool aligned =
      rows.row_stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(rows.data) % sizeof(float) == 0;
  const std::int64_t panel_size = rows.width / 2 * kPanel;
  for (std::int64_t j = 0; j < count; j += kPanel, panels += panel_size) {
    const std::int64_t here = std::min(kPanel, count - j);
    if (aligned) {
      pack_transposed(reinterpret_cast<const float*>(element<std::uint16_t>(rows, begin + j)),
                      rows.row_stride / 2, here, rows.width / 2, panel_size, panels, count - j);
      continue;
    }
    for (std::int64_t i = 0; i < here; ++i) {
      std::memcpy(row_scratch + i * scratch_stride, element<std::uint16_t>(rows, begin + j + i),
                  static_cast<std::size_t>(rows.width) * sizeof(std::uint16_t));
    }
    pack_transposed(row_scratch, scratch_stride, here, rows.width / 2, panel_size, panels);
  }
}

// Rows whose scores are computed at once: whole tiles (16) and whole groups (6 or 12).
constexpr std::int64_t kTileRows = 48;

// Keys that any of the rows [begin, end) sees.
HWY_INLINE KeyRange seen_by(std::int64_t begin, std::int64_t end, const KeyRange* groups) {
  KeyRange all{1 << 30, 0};
  for (std::int64_t g = begin / kBlockRows; g * kBlockRows < end; ++g) {
    if (groups[g].begin == groups[g].end) continue;
    all = {std::min(all.begin, groups[g].begin), std::max(all.end, groups[g].end)};
  }
  return all;
}

// s = left·panels of the rows [begin, end), kTileRows at most, for the panels that any of them
// sees; `left` and `s` are at row `begin`.
HWY_INLINE void tile_scores(std::int64_t begin, std::int64_t end, std::int64_t keys,
                            std::int64_t depth, const std::uint16_t* left, std::int64_t left_stride,
                            const float* panels, const KeyRange* groups, float* s,
                            std::int64_t s_stride) {
  const KeyRange see = seen_by(begin, end, groups);
  for (std::int64_t j = 0; j < keys; j += kPanel) {
    if (j < see.begin || j >= see.end) continue;
    amx_multiply({.rows = round_up(end - begin, 16),
                  .columns = kPanel,
                  .depth = depth,
                  .a = left,
                  .a_stride = left_stride * 2,
                  .b = panels + j / 2 * depth,
                  .b_stride = kPanel * 4,
                  .c = s + j,
                  .c_stride = s_stride * 4,
                  .add = false});
  }
}

class TileProducts {
 public:
  static constexpr std::int64_t kRows = kTileRows;

  // Other types and head dimensions take the float32 products.
  static bool can(const Context& context) {
    const detail::Call& call = context.call;
    return kPanel >= 16 && context.args.q.dtype == DType::bfloat16 && call.dim % 32 == 0 &&
           call.value_dim % 16 == 0 && amx_usable();
  }

  TileProducts(const Rows& k, const Rows& v, const ForwardScratch& scratch)
      : k_(k), v_(v), scratch_(scratch) {}

  void load_queries(const Rows& q, std::int64_t first, std::int64_t rows) const {
    load_tile_rows(q, first, rows, queries(), q_stride());
  }

  void load_block(std::int64_t begin, std::int64_t count) const {
    pack_pairs(k_, begin, count, scratch_.k, scratch_.q_stride, scratch_.k_panels);
    load_values(begin, count);
  }

  // Scores of the rows [begin, end) of the tile to scratch.s.
  void scores(std::int64_t begin, std::int64_t end, std::int64_t keys) const {
    tile_scores(begin, end, keys, k_.width, queries() + begin * q_stride(), q_stride(),
                scratch_.k_panels, scratch_.groups, scratch_.s, scratch_.s_stride);
  }

  // out = f·out + P·V of the rows [begin, end).
  void values(std::int64_t begin, std::int64_t end, bool rescale) const {
    KeyRange see = seen_by(begin, end, scratch_.groups);
    if (see.begin >= see.end) return;
    see = {see.begin / 32 * 32, static_cast<int>(round_up(see.end, 32))};
    for (std::int64_t i = begin; i < end; ++i) {
      round_row(scratch_.groups[i / kBlockRows], see, scratch_.s + (i - begin) * scratch_.s_stride);
      if (rescale) scale_row(scratch_.factor[i], scratch_.out + i * scratch_.v_stride);
    }
    const auto* weights = reinterpret_cast<const std::byte*>(scratch_.s);
    amx_multiply({.rows = round_up(end - begin, 16),
                  .columns = v_.width,
                  .depth = see.end - see.begin,
                  .a = weights + see.begin * 2,
                  .a_stride = scratch_.s_stride * 4,
                  .b = scratch_.v + see.begin / 2 * v_.width,
                  .b_stride = v_.width * 4,
                  .c = scratch_.out + begin * scratch_.v_stride,
                  .c_stride = scratch_.v_stride * 4,
                  .add = true});
  }

 private:
  std::int64_t q_stride() const { return 2 * scratch_.q_stride; }  // bfloat16 a row
  std::uint16_t* queries() const { return reinterpret_cast<std::uint16_t*>(scratch_.q); }

  // V with rows 2n and 2n + 1 interleaved, zeros up to a multiple of 32 rows.
  void load_values(std::int64_t begin, std::int64_t count) const {
    const hn::RebindToUnsigned<Floats> u32;
    const hn::Rebind<std::uint16_t, Floats> u16;
    auto* to = reinterpret_cast<std::uint32_t*>(scratch_.v);
    for (std::int64_t j = 0; j < round_up(count, 32); j += 2, to += v_.width) {
      const auto* first = element<std::uint16_t>(v_, begin + j);
      const auto* second = element<std::uint16_t>(v_, begin + j + 1);
      prefetch_row(first, v_.row_stride, j, count, v_.width);
      prefetch_row(second, v_.row_stride, j + 1, count, v_.width);
      for (std::int64_t d = 0; d < v_.width; d += kLanes) {
        const auto low = j < count ? hn::PromoteTo(u32, hn::LoadU(u16, first + d)) : hn::Zero(u32);
        const auto high =
            j + 1 < count ? hn::PromoteTo(u32, hn::LoadU(u16, second + d)) : hn::Zero(u32);
        hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), u32, to + d);
      }
    }
  }

  // Row of P as bfloat16 in the row's own memory; zero in `see` outside what the row's group sees.
  static void round_row(KeyRange group, KeyRange see, float* HWY_RESTRICT row) {
    auto* to = reinterpret_cast<std::uint16_t*>(row);
    const KeyRange range =
        group.begin == group.end
            ? KeyRange{see.begin, see.begin}
            : KeyRange{group.begin,
                       std::min(see.end, static_cast<int>(round_up(group.end, kLanes)))};
    std::fill(to + see.begin, to + range.begin, std::uint16_t{0});
    const Floats f32;
    for (std::int64_t j = range.begin; j < range.end; j += kLanes) {
      store_bfloat16(hn::LoadU(f32, row + j), to + j);
    }
    std::fill(to + range.end, to + see.end, std::uint16_t{0});
  }

  void scale_row(float factor, float* HWY_RESTRICT row) const {
    if (factor == 1) return;
    const Floats f32;
    const FloatVector scale = hn::Set(f32, factor);
    for (std::int64_t d = 0; d < v_.width; d += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(f32, row + d), scale), f32, row + d);
    }
  }

  const Rows k_;
  const Rows v_;
  const ForwardScratch& scratch_;
  AmxTiles tiles_;
};

}  // namespace jfa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
