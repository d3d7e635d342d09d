// What the tile language decides at compile time, besides layouts: shared-memory plans, ids of
// named barriers, orders of tiles.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "tlx/named_barriers.h"
#include "tlx/shared_plan.h"
#include "tlx/tile_order.h"

namespace jfa::tlx {
namespace {

struct Tiles : Region<3000, 1024> {};
struct Output : Region<5000, 1024> {};
struct Sums : Region<100, 16> {};
struct Rows : Region<40, 8> {};
struct Barriers : Region<64, 8> {};

TEST(SharedPlan, RegionsLieSideBySide) {
  using Plan = SharedPlan<Distinct<Barriers, Tiles, Sums, Rows>>;
  static_assert(Plan::offset<Barriers> == 0);
  static_assert(Plan::offset<Tiles> == 1024);
  static_assert(Plan::offset<Sums> == 4032);
  static_assert(Plan::offset<Rows> == 4136);
  static_assert(Plan::kBytes == 4176);
  static_assert(Plan::kAlignment == 1024);
}

TEST(SharedPlan, OverlappingRegionsStartTogether) {
  using Plan = SharedPlan<Distinct<Sums, Overlapping<Output, Distinct<Tiles, Rows>>, Barriers>>;
  static_assert(Plan::offset<Output> == 1024);
  static_assert(Plan::offset<Tiles> == 1024);
  static_assert(Plan::offset<Rows> == 1024 + 3000);
  static_assert(Plan::offset<Barriers> == 1024 + 5000);
  static_assert(Plan::kBytes == 1024 + 5000 + 64);
}

TEST(SharedPlan, OneRegionIsAPlan) {
  static_assert(SharedPlan<Tiles>::kBytes == 3000);
  static_assert(SharedPlan<Distinct<Tiles>>::offset<Tiles> == 0);
}

struct Turn : NamedBarrier<256> {};
struct Ready : NamedBarrier<128, 3> {};
struct Rest : NamedBarrier<32, 11> {};

TEST(NamedBarriers, IdsFollowOneAnother) {
  using Registry = NamedBarriers<Turn, Ready, Rest>;
  static_assert(Registry::id<Turn> == 1);
  static_assert(Registry::id<Ready> == 2);
  static_assert(Registry::id<Rest> == 5);
  static_assert(Registry::kUsed == 15);
}

TEST(BandedOrder, VisitsEveryTileOnce) {
  for (const BandedOrder order :
       {BandedOrder{1, 1, 8}, BandedOrder{7, 5, 3}, BandedOrder{16, 9, 8}, BandedOrder{3, 11, 8}}) {
    std::set<std::pair<u32, u32>> seen;
    for (u32 tile = 0; tile < order.tiles(); ++tile) {
      const TilePosition position = order.at(tile);
      EXPECT_LT(position.row, order.rows);
      EXPECT_LT(position.column, order.columns);
      seen.emplace(position.row, position.column);
    }
    EXPECT_EQ(seen.size(), order.tiles());
  }
}

TEST(BandedOrder, GoesDownABandFirst) {
  constexpr BandedOrder order{10, 4, 4};
  static_assert(order.at(0).row == 0 && order.at(0).column == 0);
  static_assert(order.at(3).row == 3 && order.at(3).column == 0);
  static_assert(order.at(4).row == 0 && order.at(4).column == 1);
  static_assert(order.at(16).row == 4 && order.at(16).column == 0);
  static_assert(order.at(34).row == 8 && order.at(34).column == 1);  // the last band: two rows
}

}  // namespace
}  // namespace jfa::tlx
