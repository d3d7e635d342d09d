// The keys that the rows of a tile may see, found from a few of its rows. Host and device run this
// same code.
#pragma once

#include "attention/mask.h"

namespace jfa::kernels {

// Keys of one sequence, as in TileWork.
struct TileKeys {
  Index begin = 0, end = 0;
  Index gap_begin = 0, gap_end = 0;
  Index full_begin = 0, full_end = 0;
};

// Union and intersection of what rows see: the hull of their first intervals and that of their
// second ones, and the keys in all first, or in all last intervals.
class SeenKeys {
 public:
  JFA_HOST_DEVICE constexpr void add(const RowIntervals& row) {
    const bool first = row.lo0 < row.hi0, second = row.lo1 < row.hi1;
    if (first) {
      lo0_ = smaller(lo0_, row.lo0);
      hi0_ = larger(hi0_, row.hi0);
    }
    if (second) {
      lo1_ = smaller(lo1_, row.lo1);
      hi1_ = larger(hi1_, row.hi1);
    }
    all_lo0_ = larger(all_lo0_, row.lo0);
    all_hi0_ = smaller(all_hi0_, first ? row.hi0 : 0);
    all_lo1_ = larger(all_lo1_, second ? row.lo1 : row.lo0);
    all_hi1_ = smaller(all_hi1_, second ? row.hi1 : first ? row.hi0 : 0);
  }

  // Gaps are whole blocks of `key_block` keys.
  JFA_HOST_DEVICE constexpr TileKeys keys(Index key_block) const {
    if (lo0_ >= hi0_) return {0, 1, 1, 1, 0, 0};
    TileKeys keys;
    keys.begin = smaller(lo0_, lo1_);
    keys.end = larger(hi0_, hi1_);
    keys.gap_begin = keys.gap_end = keys.end;
    const Index gap = keys.begin + (hi0_ - keys.begin + key_block - 1) / key_block * key_block;
    if (lo1_ < hi1_ && lo1_ - gap >= key_block) {
      keys.gap_begin = gap;
      keys.gap_end = gap + (lo1_ - gap) / key_block * key_block;
    }
    if (all_hi1_ - all_lo1_ > larger(all_hi0_ - all_lo0_, 0)) {
      keys.full_begin = all_lo1_;
      keys.full_end = all_hi1_;
    } else if (all_lo0_ < all_hi0_) {
      keys.full_begin = all_lo0_;
      keys.full_end = all_hi0_;
    }
    return keys;
  }

 private:
  static constexpr Index kNone = 1 << 30;
  Index lo0_ = kNone, hi0_ = 0, lo1_ = kNone, hi1_ = 0;
  Index all_lo0_ = 0, all_hi0_ = kNone, all_lo1_ = 0, all_hi1_ = kNone;
};

// Calls visit(p) for every position where the bounds of row_intervals() may stop to be monotone in
// the row's position: the first position of a new piece.
template <int kKind, typename Visit>
JFA_HOST_DEVICE constexpr void for_each_piece(const MaskParameters& mask, Index k_length,
                                              Visit&& visit) {
  visit(0);
  if constexpr (kKind == MaskParameters::window) {
    if (mask.right >= 0) visit(-mask.right);
    if (mask.left >= 0) visit(k_length + mask.left);
  } else if constexpr (kKind == MaskParameters::hstu) {
    const Index first_target = k_length - mask.targets;
    visit(k_length);
    visit(mask.contextual);
    visit(first_target);
    visit(first_target + mask.target_group);
    if (mask.max_attention_length > 0) {
      const Index shift = mask.contextual > 0 ? mask.contextual - 1 : 0;
      visit(shift + mask.max_attention_length + 1);
      visit(first_target - mask.max_attention_length);
      visit(first_target - mask.min_full_attention);
    }
  } else if constexpr (kKind == MaskParameters::prefix_local) {
    visit(mask.prefix);
    visit(mask.prefix + mask.local);
    visit(k_length + mask.local - 1);
  } else if constexpr (kKind == MaskParameters::blocks) {
    visit((k_length + mask.block - 1) / mask.block * mask.block);
  }
}

// Keys of rows [first, first + rows) of a sequence; `out_row` is the row of the first in out. The
// sequence has keys. At least one key, even if no row sees any.
template <int kKind>
JFA_HOST_DEVICE constexpr TileKeys tile_keys(const MaskArguments& mask, Index sequence, Index first,
                                             Index rows, Index out_row, Index q_length,
                                             Index k_length, Index key_block) {
  if constexpr (kKind == MaskParameters::full) {
    return {0, k_length, k_length, k_length, 0, k_length};
  } else {
    const MaskParameters parameters = mask_of_sequence<kKind>(mask, sequence, q_length, k_length);
    SeenKeys seen;
    const auto add = [&](Index row) {
      seen.add(mask_row<kKind>(mask, parameters, row, out_row + (row - first), q_length, k_length));
    };
    if constexpr (kKind == MaskParameters::intervals) {
      for (Index row = first; row < first + rows; ++row) add(row);
    } else {
      add(first);
      add(first + rows - 1);
      const Index shift = position_of(parameters, 0, q_length, k_length);
      for_each_piece<kKind>(parameters, k_length, [&](Index position) {
        const Index row = position - shift;
        if (row <= first || row >= first + rows) return;
        add(row - 1);
        add(row);
      });
    }
    return seen.keys(key_block);
  }
}

}  // namespace jfa::kernels
