// The order in which a grid of output tiles is gone through. constexpr, tested on the host.
#pragma once

#include "tlx/base.h"

namespace jfa::tlx {

struct TilePosition {
  u32 row;
  u32 column;
};

// Bands of `band` tile rows, column by column: the tiles in flight at one time form a block, which
// reads far fewer rows and columns of the operands than a line of tiles does, so that they stay in
// L2.
struct BandedOrder {
  u32 rows;     // tiles
  u32 columns;  // tiles
  u32 band;

  TLX_HOST_DEVICE u32 tiles() const { return rows * columns; }

  TLX_HOST_DEVICE TilePosition at(u32 tile) const {
    const u32 first_row = tile / (band * columns) * band;
    const u32 in_band = tile - first_row * columns;
    const u32 height = rows - first_row < band ? rows - first_row : band;  // the last may be lower
    return {first_row + in_band % height, in_band / height};
  }
};

}  // namespace jfa::tlx
