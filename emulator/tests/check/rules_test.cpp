// Undefined data, wgmma registers, the mbarrier protocol, budgets and leftovers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/check/harness.hpp"

namespace ptxemu::check::testing {
namespace {

using exec::Completion;
using exec::FenceKind;
using exec::GroupKind;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The i-th 32-bit register of the bank.
ir::Operand reg(std::uint32_t i) {
  return {.offset = i * 128, .bank = ir::Bank::registers};
}

/// An instruction that owns its operand lists.
struct Made {
  std::vector<ir::Operand> reads, writes, list, list2;
  std::vector<ir::Address> addresses;
  Instruction instruction;
  Made(ir::Category category, std::vector<ir::Operand> r, std::vector<ir::Operand> w)
      : reads(std::move(r)), writes(std::move(w)) {
    instruction.category = category;
    update();
  }
  void update() {
    instruction.reads = reads;
    instruction.writes = writes;
    instruction.list = list;
    instruction.list2 = list2;
    instruction.addresses = addresses;
  }
};

class RulesTest : public ::testing::Test {
 protected:
  RulesTest()
      : launch_(make_checker({.uninitialised = true, .protocol = true}, sink_)),
        cluster_(*launch_, 1, 4) {}
  Sink sink_;
  std::unique_ptr<exec::LaunchObserver> launch_;
  Cluster cluster_;
};

TEST_F(RulesTest, AnUndefinedAddressIsReportedAndArithmeticPassesItOn) {
  Made add(ir::Category::arithmetic, {reg(1), reg(2)}, {reg(3)});
  Made define(ir::Category::arithmetic, {}, {reg(1)});
  Made use(ir::Category::load, {reg(3)}, {reg(4)});
  use.addresses = {{.base = reg(3)}};
  use.update();
  cluster_.run(0, 0, define.instruction);
  cluster_.run(0, 0, add.instruction);
  EXPECT_THAT(sink_.take(), IsEmpty());  // computing with it is harmless
  cluster_.run(0, 0, use.instruction);
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::uninitialised));
}

TEST_F(RulesTest, DefinednessIsKeptPerLane) {
  Made define(ir::Category::arithmetic, {}, {reg(1)});
  Made use(ir::Category::load, {reg(1)}, {reg(2)});
  use.addresses = {{.base = reg(1)}};
  use.update();
  cluster_.run(0, 0, define.instruction, 0xffff);
  cluster_.run(0, 0, use.instruction, 0xff00);
  EXPECT_THAT(sink_.take(), IsEmpty());
  cluster_.run(0, 0, use.instruction, 0x1ff00);
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::uninitialised));
}

TEST_F(RulesTest, UndefinedMemoryReachesGlobalMemoryOnlyWithAReport) {
  launch_->on_global_allocate(0x10000, 256, false);
  Made load(ir::Category::load, {}, {reg(1)});
  load.list = {reg(1)};
  load.update();
  Made store(ir::Category::store, {reg(1)}, {});
  store.list = {reg(1)};
  store.update();
  cluster_.load = load.instruction;
  cluster_.store = store.instruction;
  cluster_.run(0, 0, load.instruction);
  cluster_.read(0, 0, 1);
  EXPECT_THAT(sink_.take(), IsEmpty());
  cluster_.global(0, AccessKind::write, 0x10000);
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::uninitialised));
}

TEST_F(RulesTest, CopiesCarryUndefinedBytesAlong) {
  launch_->on_global_allocate(0x10000, 256, false);
  launch_->on_host_write(0x10000, 4);
  cluster_.issue(1, AgentKind::bulk_copy, Completion::mbarrier, 0, cluster_.copy);
  cluster_.async_access(1, AccessKind::read, 0x10000, 8, ir::Space::global);
  cluster_.async_access(1, AccessKind::write, 0, 8);
  const auto store = [&](std::uint64_t operation, std::uint64_t offset) {
    cluster_.issue(operation, AgentKind::bulk_copy, Completion::bulk_group, 0, cluster_.copy);
    cluster_.async_access(operation, AccessKind::read, offset, 4);
    cluster_.async_access(operation, AccessKind::write, 0x10040, 4, ir::Space::global);
    cluster_.wait_group(GroupKind::bulk, 0, {operation});
  };
  store(2, 0);
  EXPECT_THAT(sink_.take(), IsEmpty());
  store(3, 4);
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::uninitialised));
}

class WgmmaTest : public RulesTest {
 protected:
  WgmmaTest() : wgmma_(ir::Category::wgmma, {}, {reg(8)}) {
    wgmma_.list = {reg(8)};
    wgmma_.list2 = {reg(9)};
    wgmma_.instruction.text = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 …";
    wgmma_.update();
  }
  void multiply(std::uint64_t operation) {
    for (std::uint32_t warp = 0; warp < 4; ++warp) cluster_.run(0, warp, wgmma_.instruction);
    cluster_.issue(operation, AgentKind::tensor_core, Completion::wgmma_group, 3,
                   wgmma_.instruction, ir::kFullMask);
  }
  void fence() {
    for (std::uint32_t warp = 0; warp < 4; ++warp) {
      cluster_.run(0, warp, cluster_.start);
      cluster_.fence(warp, FenceKind::wgmma);
    }
  }
  void wait(std::vector<std::uint64_t> operations) {
    for (std::uint32_t warp = 0; warp < 4; ++warp) {
      cluster_.wait_group(GroupKind::wgmma, warp, operations, false, ir::kFullMask);
    }
  }
  Made wgmma_;
};

TEST_F(WgmmaTest, TheFirstWgmmaNeedsAFence) {
  multiply(1);
  EXPECT_THAT(sink_.take(), Contains(ReportKind::missing_fence));
}

TEST_F(WgmmaTest, RegistersWrittenAfterTheFenceNeedAnotherOne) {
  Made pack(ir::Category::arithmetic, {}, {reg(9)});
  fence();
  cluster_.run(0, 2, pack.instruction);
  multiply(1);
  EXPECT_THAT(sink_.take(), Contains(ReportKind::missing_fence));
  wait({1});
  fence();
  multiply(2);
  multiply(3);  // accumulating further needs no fence
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(WgmmaTest, RegistersBelongToTheTensorCoreUntilTheWait) {
  Made read(ir::Category::arithmetic, {reg(8)}, {reg(20)});
  Made overwrite(ir::Category::arithmetic, {}, {reg(9)});
  fence();
  multiply(1);
  cluster_.run(0, 0, read.instruction);
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::in_flight_reuse));
  cluster_.run(0, 1, overwrite.instruction);
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::in_flight_reuse));
  wait({1});
  cluster_.run(0, 0, read.instruction);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(WgmmaTest, ExitWithAProductInFlight) {
  fence();
  multiply(1);
  cluster_.observer->on_lanes_exit(0, 0, ir::kFullMask);
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::left_pending));
}

TEST_F(RulesTest, AnMbarrierIsUsedByOthersAfterABarrier) {
  cluster_.mbarrier(BarrierEvent::init, 1024, 0);
  cluster_.mbarrier(BarrierEvent::arrive, 1024, 1);
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::barrier_protocol));
  cluster_.cta_barrier({0, 1, 2, 3});
  cluster_.mbarrier(BarrierEvent::arrive, 1024, 1);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(RulesTest, AnMbarrierIsInitialisedOnce) {
  cluster_.mbarrier(BarrierEvent::init, 1024, 0);
  cluster_.mbarrier(BarrierEvent::init, 1024, 0);
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::barrier_protocol));
  cluster_.mbarrier(BarrierEvent::inval, 1024, 0);
  cluster_.mbarrier(BarrierEvent::init, 1024, 0);
  EXPECT_THAT(sink_.take(), IsEmpty());
}

TEST_F(RulesTest, AWaiterMustSeeItsPhaseBeforeTheNextOneCompletes) {
  cluster_.mbarrier(BarrierEvent::init, 1024, 0);
  cluster_.cta_barrier({0, 1, 2, 3});
  cluster_.mbarrier(BarrierEvent::wait_blocked, 1024, 1, ir::kFullMask);
  cluster_.mbarrier(BarrierEvent::wait_blocked, 1024, 2, ir::kFullMask);
  cluster_.mbarrier(BarrierEvent::phase_complete, 1024, 0, 0);
  cluster_.mbarrier(BarrierEvent::wait_success, 1024, 1, ir::kFullMask);
  EXPECT_THAT(sink_.take(), IsEmpty());
  cluster_.mbarrier(BarrierEvent::phase_complete, 1024, 0, 0);  // warp 2 was not quick enough
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::barrier_protocol));
}

TEST_F(RulesTest, DataOverALiveMbarrier) {
  cluster_.mbarrier(BarrierEvent::init, 1024, 0);
  cluster_.write(0, 1020, 1);
  EXPECT_THAT(sink_.take(), IsEmpty());
  cluster_.write(0, 1028, 1);
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::barrier_protocol));
}

TEST_F(RulesTest, TransactionBytesLeftAtTheEnd) {
  cluster_.mbarrier(BarrierEvent::init, 1024, 0);
  cluster_.mbarrier(BarrierEvent::expect_tx, 1024, 0, 1, 0, 0, 0, 64);
  cluster_.observer->on_cluster_end();
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::left_pending));
}

TEST_F(RulesTest, ExitBeforeAStoreHasReadItsBuffer) {
  cluster_.issue(1, AgentKind::bulk_copy, Completion::bulk_group, 0, cluster_.copy);
  cluster_.issue(2, AgentKind::bulk_copy, Completion::bulk_group, 0, cluster_.copy);
  cluster_.wait_group(GroupKind::bulk, 0, {1}, true);
  cluster_.observer->on_lanes_exit(0, 0, ir::kFullMask);
  EXPECT_THAT(sink_.take(), ElementsAre(ReportKind::left_pending));
}

TEST_F(RulesTest, RegisterBudgetsAreSummedOverTheCta) {
  Sink sink;
  const auto launch = make_checker({.protocol = true}, sink);
  Cluster cluster(*launch, 1, 12);
  const auto set = [&](std::uint32_t group, std::uint32_t registers) {
    for (std::uint32_t warp = 4 * group; warp < 4 * group + 4; ++warp) {
      cluster.observer->on_register_limit(0, warp, registers, cluster.start);
    }
  };
  set(0, 40);
  set(1, 232);
  set(2, 232);
  cluster.observer->on_cluster_end();
  EXPECT_THAT(sink.take(), IsEmpty());  // 128 × (40 + 232 + 232) = 64512
  set(2, 248);
  cluster.observer->on_cluster_end();
  EXPECT_THAT(sink.take(), Contains(ReportKind::register_budget));
}

TEST_F(RulesTest, ARemoteBarrierNeedsItsInitialisationPublished) {
  Sink sink;
  const auto launch = make_checker({.protocol = true}, sink);
  for (const bool fenced : {false, true}) {
    Cluster cluster(*launch, 2, 1);
    cluster.mbarrier(BarrierEvent::init, 1024, 0, 1, 0, 0, 0);
    if (fenced) cluster.fence(0, FenceKind::mbarrier_init, 1, 0);
    exec::ClusterBarrierEvent event;
    event.semantics = ir::Semantics::relaxed;
    event.lanes = ir::kFullMask;
    for (const auto kind :
         {exec::ClusterBarrierEvent::Kind::arrive, exec::ClusterBarrierEvent::Kind::wait}) {
      event.kind = kind;
      for (std::uint8_t cta = 0; cta < 2; ++cta) {
        event.cta = cta;
        cluster.observer->on_cluster_barrier(event);
      }
    }
    event.kind = exec::ClusterBarrierEvent::Kind::complete;
    cluster.observer->on_cluster_barrier(event);
    cluster.mbarrier(BarrierEvent::arrive, 1024, 0, 1, 0, 1, 0);
    if (fenced) {
      EXPECT_THAT(sink.take(), IsEmpty());
    } else {
      EXPECT_THAT(sink.take(), ElementsAre(ReportKind::missing_fence));
    }
  }
}

}  // namespace
}  // namespace ptxemu::check::testing
