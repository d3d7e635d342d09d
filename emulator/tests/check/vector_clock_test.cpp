// Vector clocks and the happens-before of warps, lane by lane.
#include "check/vector_clock.hpp"

#include <gtest/gtest.h>

#include "check/order.hpp"

namespace ptxemu::check {
namespace {

TEST(VectorClock, SeesAllLanesOrSomeLanes) {
  VectorClock clock;
  EXPECT_FALSE(clock.covers(3, 1));
  clock.see(3, 5);
  EXPECT_TRUE(clock.covers(3, 5, 17));
  EXPECT_FALSE(clock.covers(3, 6, 17));
  clock.see_lanes(3, 7, 0b10);
  EXPECT_TRUE(clock.covers(3, 7, 1));
  EXPECT_FALSE(clock.covers(3, 7, 0));
  EXPECT_TRUE(clock.covers(3, 5, 0));
}

TEST(VectorClock, JoinTakesTheMaximumAndTheUnionOfLanes) {
  VectorClock a, b;
  a.see(0, 4);
  a.see_lanes(1, 9, 0b01);
  b.see(0, 2);
  b.see(2, 8);
  b.see_lanes(1, 9, 0b10);
  a.join(b);
  EXPECT_TRUE(a.covers(0, 4));
  EXPECT_TRUE(a.covers(2, 8));
  EXPECT_TRUE(a.covers(1, 9, 0));
  EXPECT_TRUE(a.covers(1, 9, 1));
  EXPECT_FALSE(a.covers(1, 9, 2));
}

TEST(VectorClock, ALaterFullViewReplacesTheLanes) {
  VectorClock a, b;
  a.see_lanes(0, 3, 0b1);
  b.see(0, 5);
  a.join(b);
  a.see_lanes(0, 6, 0b100);
  EXPECT_TRUE(a.covers(0, 6, 2));
  EXPECT_FALSE(a.covers(0, 6, 0));
}

TEST(Knowledge, PassesOnWhatOtherClustersReleased) {
  auto first = std::make_shared<Knowledge>();
  first->seen.see(0, 3);
  auto second = std::make_shared<Knowledge>();
  second->join_from(1, first, 2);  // a thread of cluster 2 acquires from cluster 1
  Knowledge third;
  third.join_from(2, second, 3);
  ASSERT_TRUE(third.foreign.contains(1));
  EXPECT_TRUE(third.foreign.at(1)->seen.covers(0, 3));
  Knowledge home;
  home.join_from(2, second, 1);  // back in cluster 1
  EXPECT_TRUE(home.seen.covers(0, 3));
}

TEST(Order, ALoneLanePassesOnOnlyItsOwnActions) {
  Order order(2);
  order.appear(0, ir::kFullMask);
  order.appear(1, ir::kFullMask);
  const Time time = order.time_of_access(0);
  Knowledge released;
  order.release(0, 0b1, released);
  order.acquire(1, ir::kFullMask, released);
  EXPECT_TRUE(order.of(1, 4).seen.covers(0, time, 0));
  EXPECT_FALSE(order.of(1, 4).seen.covers(0, time, 1));
  order.meet(0, ir::kFullMask);
  order.release(0, 0b1, released);
  order.acquire(1, ir::kFullMask, released);
  EXPECT_TRUE(order.of(1, 4).seen.covers(0, time, 1));
}

TEST(Order, ALoneLaneAcquiresForItself) {
  Order order(2);
  order.appear(0, ir::kFullMask);
  order.appear(1, ir::kFullMask);
  const Time time = order.time_of_access(0);
  Knowledge released;
  order.release(0, ir::kFullMask, released);
  order.acquire(1, 0b100, released);
  EXPECT_TRUE(order.of(1, 2).seen.covers(0, time, 9));
  EXPECT_FALSE(order.of(1, 3).seen.covers(0, time, 9));
  order.meet(1, ir::kFullMask);
  EXPECT_TRUE(order.of(1, 3).seen.covers(0, time, 9));
}

TEST(Order, AWarpWithoutAllLanesCountsItsLiveOnes) {
  Order order(2);
  order.appear(0, 0xf);
  order.appear(1, ir::kFullMask);
  const Time time = order.time_of_access(0);
  Knowledge released;
  order.release(0, 0xf, released);
  order.acquire(1, ir::kFullMask, released);
  EXPECT_TRUE(order.of(1, 0).seen.covers(0, time, 3));
}

TEST(Order, AccessesAfterAReleaseAreLater) {
  Order order(1);
  order.appear(0, ir::kFullMask);
  const Time before = order.time_of_access(0);
  EXPECT_EQ(order.time_of_access(0), before);
  order.close_interval(0);
  EXPECT_GT(order.time_of_access(0), before);
}

}  // namespace
}  // namespace ptxemu::check
