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

class TileProducts {
 public:
  static constexpr std::int64_t kRows = 48;  // whole tiles (16) and whole groups (6 or 12)

  // Other types and head dimensions take the float32 products.
  static bool can(const Context& context) {
    const detail::Call& call = context.call;
    return kPanel >= 16 && context.args.q.dtype == DType::bfloat16 && call.dim % 32 == 0 &&
           call.value_dim % 16 == 0 && amx_usable();
  }

  TileProducts(const Rows& k, const Rows& v, const ForwardScratch& scratch)
      : k_(k), v_(v), scratch_(scratch) {}

  void load_queries(const Rows& q, std::int64_t first, std::int64_t rows) const {
    auto* to = reinterpret_cast<std::uint16_t*>(scratch_.q);
    const auto bytes = static_cast<std::size_t>(q.width) * sizeof(std::uint16_t);
    for (std::int64_t i = 0; i < round_up(rows, 16); ++i) {
      if (i < rows) {
        std::memcpy(to + i * q_stride(), element<std::uint16_t>(q, first + i), bytes);
      } else {
        std::memset(to + i * q_stride(), 0, bytes);
      }
    }
  }

  void load_block(std::int64_t begin, std::int64_t count) const {
    load_keys(begin, count);
    load_values(begin, count);
  }

  // Scores of the rows [begin, end) of the tile to scratch.s.
  void scores(std::int64_t begin, std::int64_t end, std::int64_t keys) const {
    const KeyRange see = seen(begin, end);
    for (std::int64_t j = 0; j < keys; j += kPanel) {
      if (j < see.begin || j >= see.end) continue;
      amx_multiply({.rows = round_up(end - begin, 16),
                    .columns = kPanel,
                    .depth = k_.width,
                    .a = reinterpret_cast<std::uint16_t*>(scratch_.q) + begin * q_stride(),
                    .a_stride = q_stride() * 2,
                    .b = scratch_.k_panels + j / kPanel * panel_size(),
                    .b_stride = kPanel * 4,
                    .c = scratch_.s + j,
                    .c_stride = scratch_.s_stride * 4,
                    .add = false});
    }
  }

  // out = f·out + P·V of the rows [begin, end).
  void values(std::int64_t begin, std::int64_t end, bool rescale) const {
    KeyRange see = seen(begin, end);
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
  std::int64_t panel_size() const { return k_.width / 2 * kPanel; }

  // Keys that any of the rows sees.
  KeyRange seen(std::int64_t begin, std::int64_t end) const {
    KeyRange all{1 << 30, 0};
    for (std::int64_t g = begin / kBlockRows; g * kBlockRows < end; ++g) {
      const KeyRange group = scratch_.groups[g];
      if (group.begin == group.end) continue;
      all = {std::min(all.begin, group.begin), std::max(all.end, group.end)};
    }
    return all;
  }

  // Kᵀ in panels of pairs: what pack_transposed does with floats, two elements in each.
  void load_keys(std::int64_t begin, std::int64_t count) const {
    const bool aligned =
        k_.row_stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(k_.data) % sizeof(float) == 0;
    const std::int64_t pairs = k_.width / 2;
    for (std::int64_t j = 0; j < count; j += kPanel) {
      const std::int64_t here = std::min(kPanel, count - j);
      const float* from = scratch_.k;
      std::int64_t stride = scratch_.q_stride;
      if (aligned) {
        from = reinterpret_cast<const float*>(element<std::uint16_t>(k_, begin + j));
        stride = k_.row_stride / 2;
      } else {
        for (std::int64_t i = 0; i < here; ++i) {
          std::memcpy(scratch_.k + i * stride, element<std::uint16_t>(k_, begin + j + i),
                      static_cast<std::size_t>(k_.width) * sizeof(std::uint16_t));
        }
      }
      pack_transposed(from, stride, here, pairs, panel_size(),
                      scratch_.k_panels + j / kPanel * panel_size(), aligned ? count - j : 0);
    }
  }

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
