// Race detection on small event sequences: what must be reported, and what must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/check/harness.hpp"

namespace ptxemu::check::testing {
namespace {

using exec::Completion;
using exec::FenceKind;
using exec::GroupKind;
using ::testing::Contains;
using ::testing::IsEmpty;

class RacesTest : public ::testing::Test {
 protected:
  RacesTest() : launch_(make_checker({.races = true}, sink_)), cluster_(*launch_) {}
  Sink sink_;
  std::unique_ptr<exec::LaunchObserver> launch_;
  Cluster cluster_;
};

TEST_F(RacesTest, TwoWarpsNeedABarrier) {
  cluster_.write(0, 0);
  cluster_.read(1, 0);
  EXPECT_THAT(sink_.take(), Contains(ReportKind::data_race));
  cluster_.cta_barrier({0, 1});
  cluster_.write(0, 0);
  cluster_.cta_barrier({0, 1});
  cluster_.read(1, 0);
  EXPECT_THAT(sink_.take(), IsEmpty());
  cluster_.write(0, 0);  // while warp 1 may still read
  EXPECT_THAT(sink_.take(), Contains(ReportKind::data_race));
}

TEST_F(RacesTest, LanesOfAWarpNeedAWarpBarrier) {
  cluster_.write(0, 0);
  cluster_.read(0, 4);  // lane l reads what lane l + 1 wrote
  EXPECT_THAT(sink_.take(), Contains(ReportKind::data_race));
  cluster_.cta_barrier({0, 1});
  cluster_.write(0, 0);
  cluster_.warp_sync(0);
  cluster_.read(0, 4, 0x7fffffff);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(RacesTest, DifferentBytesOfAWordDoNotConflict) {
  cluster_.write(0, 0, 0b1);
  cluster_.write(1, 0, 0b10);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(RacesTest, AnMbarrierOrdersArrivalsBeforeWaits) {
  cluster_.mbarrier(BarrierEvent::init, 1024, 0);
  cluster_.write(0, 0);
  cluster_.mbarrier(BarrierEvent::arrive, 1024, 0, ir::kFullMask);
  cluster_.mbarrier(BarrierEvent::phase_complete, 1024, 0, 0);
  cluster_.mbarrier(BarrierEvent::wait_success, 1024, 1, ir::kFullMask);
  cluster_.read(1, 0);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(RacesTest, AnArriveOfOneLaneDoesNotCoverTheOthersWrites) {
  cluster_.mbarrier(BarrierEvent::init, 1024, 0);
  cluster_.write(0, 0);
  cluster_.mbarrier(BarrierEvent::arrive, 1024, 0, 1);
  cluster_.mbarrier(BarrierEvent::phase_complete, 1024, 0, 0);
  cluster_.mbarrier(BarrierEvent::wait_success, 1024, 1, ir::kFullMask);
  cluster_.read(1, 0, 1);
  EXPECT_THAT(sink_.take(), IsEmpty());
  cluster_.read(1, 0, 0b10);
  EXPECT_THAT(sink_.take(), Contains(ReportKind::data_race));
}

/// A bulk load of 64 bytes at 0 that completes on the mbarrier at 1024.
void load_tile(Cluster& cluster, std::uint64_t operation) {
  cluster.issue(operation, AgentKind::bulk_copy, Completion::mbarrier, 0, cluster.copy);
  cluster.async_access(operation, AccessKind::write, 0, 64);
  cluster.mbarrier(BarrierEvent::complete_tx, 1024, 0, 0, operation);
  cluster.finish(operation);
  cluster.mbarrier(BarrierEvent::phase_complete, 1024, 0, 0, operation);
}

TEST_F(RacesTest, ABulkLoadIsSeenAfterTheWait) {
  cluster_.mbarrier(BarrierEvent::init, 1024, 0);
  load_tile(cluster_, 1);
  cluster_.read(1, 0, 0b1);
  EXPECT_THAT(sink_.take(), Contains(ReportKind::data_race));
  cluster_.mbarrier(BarrierEvent::wait_success, 1024, 1, ir::kFullMask);
  cluster_.read(1, 4, 0b1);
  EXPECT_THAT(sink_.take(), IsEmpty());
  load_tile(cluster_, 2);  // nobody said that warp 1 has read the tile
  EXPECT_THAT(sink_.take(), Contains(ReportKind::data_race));
}

TEST_F(RacesTest, ALateLoadIsTheSameRaceAsAnEarlyOne) {
  cluster_.mbarrier(BarrierEvent::init, 1024, 0);
  cluster_.issue(1, AgentKind::bulk_copy, Completion::mbarrier, 0, cluster_.copy);
  cluster_.read(1, 0, 0b1);
  cluster_.async_access(1, AccessKind::write, 0, 64);
  EXPECT_THAT(sink_.take(), Contains(ReportKind::data_race));
}

TEST_F(RacesTest, AStoreNeedsTheProxyFence) {
  cluster_.write(0, 0);
  cluster_.warp_sync(0);
  cluster_.issue(1, AgentKind::bulk_copy, Completion::bulk_group, 0, cluster_.copy);
  cluster_.async_access(1, AccessKind::read, 0, 64);
  EXPECT_THAT(sink_.take(), Contains(ReportKind::missing_fence));
  cluster_.finish(1);
  cluster_.wait_group(GroupKind::bulk, 0, {1});
  cluster_.warp_sync(0);
  cluster_.write(0, 0);
  cluster_.fence(0, FenceKind::proxy_async);
  cluster_.warp_sync(0);
  cluster_.issue(2, AgentKind::bulk_copy, Completion::bulk_group, 0, cluster_.copy);
  cluster_.async_access(2, AccessKind::read, 0, 64);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(RacesTest, TheReaderMayFenceAfterItsWait) {
  cluster_.write(0, 0);
  cluster_.cta_barrier({0, 1});
  cluster_.fence(1, FenceKind::proxy_async);
  cluster_.issue(1, AgentKind::bulk_copy, Completion::bulk_group, 1, cluster_.copy);
  cluster_.async_access(1, AccessKind::read, 0, 64);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(RacesTest, ABufferBelongsToTheStoreUntilItsReadsAreAwaited) {
  cluster_.issue(1, AgentKind::bulk_copy, Completion::bulk_group, 0, cluster_.copy);
  cluster_.async_access(1, AccessKind::read, 0, 64);
  cluster_.finish(1);
  cluster_.write(0, 0, 0b1);
  EXPECT_THAT(sink_.take(), Contains(ReportKind::in_flight_reuse));
  cluster_.wait_group(GroupKind::bulk, 0, {1}, true);
  cluster_.write(0, 4, 0b1);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(RacesTest, AWriteBeforeALateStoreIsReuseToo) {
  cluster_.issue(1, AgentKind::bulk_copy, Completion::bulk_group, 0, cluster_.copy);
  cluster_.write(0, 0, 0b1);
  cluster_.async_access(1, AccessKind::read, 0, 64);
  EXPECT_THAT(sink_.take(), Contains(ReportKind::in_flight_reuse));
}

TEST_F(RacesTest, CpAsyncIsSeenByItsThreadAfterTheWait) {
  cluster_.issue(1, AgentKind::cp_async, Completion::cp_async_group, 0, cluster_.copy,
                 ir::kFullMask);
  cluster_.async_access(1, AccessKind::write, 0, 64);
  cluster_.finish(1);
  cluster_.wait_group(GroupKind::cp_async, 0, {1}, false, ir::kFullMask);
  cluster_.read(0, 0, 0b1);
  EXPECT_THAT(sink_.take(), IsEmpty());
  cluster_.read(1, 0, 0b1);
  EXPECT_THAT(sink_.take(), Contains(ReportKind::data_race));
}

TEST_F(RacesTest, AtomicsDoNotRaceButPlainAccessesDo) {
  const std::uint64_t address = 0x10000;
  launch_->on_global_allocate(address, 64, true);
  cluster_.global(0, AccessKind::atomic, address, ir::Semantics::relaxed);
  cluster_.global(1, AccessKind::atomic, address, ir::Semantics::relaxed);
  EXPECT_THAT(sink_.take(), IsEmpty());
  cluster_.global(0, AccessKind::read, address);
  EXPECT_THAT(sink_.take(), Contains(ReportKind::data_race));
}

TEST_F(RacesTest, ReleaseAndAcquireOrderClusters) {
  const std::uint64_t data = 0x10000, flag = 0x10010;
  launch_->on_global_allocate(data, 64, true);
  Cluster other(*launch_, 1, 2, 1);
  cluster_.global(0, AccessKind::write, data);
  cluster_.global(0, AccessKind::write, flag, ir::Semantics::release);
  other.global(0, AccessKind::read, flag, ir::Semantics::acquire);
  other.global(0, AccessKind::read, data);
  EXPECT_THAT(sink_.take(), IsEmpty());
  other.global(1, AccessKind::read, data);  // this warp has not acquired
  EXPECT_THAT(sink_.take(), Contains(ReportKind::data_race));
}

TEST_F(RacesTest, FencesAroundRelaxedAtomicsOrderClusters) {
  const std::uint64_t data = 0x10000, flag = 0x10010;
  launch_->on_global_allocate(data, 64, true);
  Cluster other(*launch_, 1, 2, 1);
  cluster_.global(0, AccessKind::write, data);
  cluster_.fence(0, FenceKind::memory, 1);
  cluster_.global(0, AccessKind::atomic, flag, ir::Semantics::relaxed);
  other.global(0, AccessKind::atomic, flag, ir::Semantics::relaxed);
  other.fence(0, FenceKind::memory, 1);
  other.global(0, AccessKind::read, data);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(RacesTest, CtaScopeDoesNotReachOtherCtas) {
  const std::uint64_t data = 0x10000, flag = 0x10010;
  launch_->on_global_allocate(data, 64, true);
  Cluster other(*launch_, 1, 2, 1);
  cluster_.global(0, AccessKind::write, data);
  cluster_.global(0, AccessKind::write, flag, ir::Semantics::release, ir::Scope::cta);
  other.global(0, AccessKind::read, flag, ir::Semantics::acquire);
  other.global(0, AccessKind::read, data);
  EXPECT_THAT(sink_.take(), Contains(ReportKind::data_race));
}

TEST_F(RacesTest, AKernelBoundaryOrdersEverything) {
  const std::uint64_t data = 0x10000;
  launch_->on_global_allocate(data, 64, true);
  cluster_.global(0, AccessKind::write, data);
  launch_->on_kernel_end();
  Cluster next(*launch_, 1, 2, 0);
  next.global(1, AccessKind::read, data);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

}  // namespace
}  // namespace ptxemu::check::testing
