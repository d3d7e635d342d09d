// Asynchronous copies are late: a missing wait shows under the lazy schedule, a present one never.
#include "tests/common/kernel.hpp"

namespace ptxemu {
namespace {

DeviceOptions with(Schedule schedule) {
  DeviceOptions options;
  options.schedule = schedule;
  return options;
}

std::string cp_async(bool waits) {
  return testing::kernel(R"(
    .shared .align 16 .b8 data[512];
    mul.wide.u32 %rd5, %r0, 16; add.u64 %rd5, %rd1, %rd5;
    mov.u32 %r1, data; shl.b32 %r2, %r0, 4; add.u32 %r1, %r1, %r2;
    st.shared.u32 [%r1], 77;
    cp.async.cg.shared.global [%r1], [%rd5], 16;
    cp.async.commit_group;
  )" + std::string(waits ? "cp.async.wait_group 0;" : "") +
                         "ld.shared.u32 %r3, [%r1]; st.global.u32 [%rd3], %r3;");
}

std::vector<std::uint32_t> numbers(std::size_t count) {
  std::vector<std::uint32_t> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<std::uint32_t>(i);
  return result;
}

TEST(CpAsync, ArrivesAtTheWaitUnderEverySchedule) {
  for (const Schedule schedule :
       {Schedule::eager, Schedule::lazy, Schedule::reverse, Schedule::random}) {
    const auto run = testing::run(cp_async(true), numbers(128), 32, 0, with(schedule));
    ASSERT_TRUE(run.result.clean()) << run.reports();
    for (std::uint32_t l = 0; l < 32; ++l) EXPECT_EQ(run.out[l], 4 * l);
  }
}

TEST(CpAsync, AMissingWaitReadsOldData) {
  EXPECT_EQ(testing::run(cp_async(false), numbers(128), 32, 0, with(Schedule::lazy)).out[3], 77U);
  EXPECT_EQ(testing::run(cp_async(false), numbers(128), 32, 0, with(Schedule::eager)).out[3], 12U);
}

const char* const kBulk = R"(
    .shared .align 16 .b8 data[128]; .shared .align 8 .b64 full;
    setp.ne.u32 %p1, %r0, 0; @%p1 bra WAIT;
    mbarrier.init.shared::cta.b64 [full], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], BYTES;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd1], 128, [full];
    WAIT: bar.sync 0;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0; @!%p2 bra W;
    mov.u32 %r1, data; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2; ld.shared.u32 %r3, [%r1];
    add.u32 %r3, %r3, 1; st.shared.u32 [%r1], %r3;
    fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%rd0], [data], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    END:)";

std::string bulk(const std::string& bytes) {
  std::string text = kBulk;
  text.replace(text.find("BYTES"), 5, bytes);
  return testing::kernel(text);
}

TEST(BulkCopy, GoesThereAndBack) {
  for (const Schedule schedule :
       {Schedule::eager, Schedule::lazy, Schedule::reverse, Schedule::random}) {
    DeviceOptions options = with(schedule);
    options.checks = Checks::all();
    const auto run = testing::run(bulk("128"), numbers(32), 32, 0, options);
    ASSERT_TRUE(run.result.clean()) << run.reports();
    for (std::uint32_t l = 0; l < 32; ++l) EXPECT_EQ(run.out[l], l + 1);
  }
}

TEST(BulkCopy, WrongTransactionBytesAreADeadlock) {
  const auto run = testing::run(bulk("256"), numbers(32), 32, 0, with(Schedule::lazy));
  EXPECT_TRUE(testing::has(run.result, ReportKind::deadlock)) << run.reports();
}

}  // namespace
}  // namespace ptxemu
