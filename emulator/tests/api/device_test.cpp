// The public interface: bad calls throw, faults of kernels are reports, budgets hold.
#include <gmock/gmock.h>

#include "tests/common/kernel.hpp"

namespace ptxemu {
namespace {

using ::testing::HasSubstr;

TEST(Memory, ChecksRangesAndLimits) {
  DeviceOptions options;
  options.memory_limit_bytes = 4096;
  Device device(options);
  EXPECT_THROW((void)device.allocate(5000), Error);
  const DevicePointer a = device.allocate(100);
  EXPECT_THROW(device.fill(a, 0, 101), Error);
  device.fill(a, 0, 100);
  EXPECT_THROW(device.free(a + 1), Error);
  device.free(a);
  EXPECT_THROW(device.free(a), Error);
  device.free(0);
}

TEST(Launch, RefusesBadArguments) {
  Device device;
  const Module module = device.load(testing::kernel(""), "test.ptx");
  const DevicePointer p = device.allocate(4);
  const std::vector<const void*> two{&p, &p}, one{&p};
  EXPECT_THROW((void)device.launch(module, "missing", {}, two), Error);
  EXPECT_THROW((void)device.launch(module, "test", {}, one), Error);
  LaunchConfig config;
  config.block = {1025, 1, 1};
  EXPECT_THROW((void)device.launch(module, "test", config, two), Error);
  config.block = {32, 1, 1};
  config.dynamic_shared_bytes = 300000;
  EXPECT_THROW((void)device.launch(module, "test", config, two), Error);
}

TEST(Faults, OutOfBoundsNamesThreadAndAllocation) {
  const auto run = testing::run(testing::kernel("st.global.u32 [%rd3+8], %r0;"));
  EXPECT_FALSE(run.result.completed);
  ASSERT_TRUE(testing::has(run.result, ReportKind::out_of_bounds)) << run.reports();
  EXPECT_THAT(run.reports(), HasSubstr("lane 30"));
  EXPECT_THAT(run.reports(), HasSubstr("beyond the end"));
  EXPECT_THAT(run.reports(), HasSubstr("test.ptx:19"));
}

TEST(Faults, MisalignedSharedAndLocalAccesses) {
  EXPECT_TRUE(testing::has(testing::run(testing::kernel("st.global.u32 [%rd3+2], %r0;")).result,
                           ReportKind::misaligned));
  EXPECT_TRUE(testing::has(
      testing::run(testing::kernel("mov.u32 %r1, 0x40000; st.shared.u32 [%r1], %r0;")).result,
      ReportKind::out_of_bounds));
  EXPECT_TRUE(testing::has(
      testing::run(
          testing::kernel(".local .b8 a[16]; mov.u64 %rd5, a; st.local.u32 [%rd5+16], %r0;"))
          .result,
      ReportKind::out_of_bounds));
  EXPECT_TRUE(testing::has(testing::run(testing::kernel("trap;")).result, ReportKind::trap));
}

TEST(Budgets, StopEndlessLoops) {
  DeviceOptions options;
  options.instruction_budget = 1000000;
  const std::string spin = testing::kernel("L: bra L;");
  EXPECT_TRUE(
      testing::has(testing::run(spin, {}, 32, 0, options).result, ReportKind::budget_exceeded));
  options.instruction_budget = 0;
  options.time_budget_seconds = 0.05;
  EXPECT_TRUE(
      testing::has(testing::run(spin, {}, 32, 0, options).result, ReportKind::budget_exceeded));
}

TEST(Threads, ClustersRunOnTwoHostThreads) {
  DeviceOptions options;
  options.threads = 2;
  LaunchConfig config;
  config.grid = {64, 1, 1};
  const auto run = testing::run(
      testing::kernel("atom.global.add.u32 %r1, [%rd0], 1; red.global.max.u32 [%rd0+4], %r0;"), {},
      32, 2, options, config);
  ASSERT_TRUE(run.result.clean()) << run.reports();
  EXPECT_EQ(run.out[0], 0xffffffffU + 2048U);  // fresh memory is all ones
}

TEST(Threads, ClustersMayWaitForEachOther) {
  // Block 0 waits for the last block.
  LaunchConfig config;
  config.grid = {8, 1, 1};
  const auto run = testing::run(testing::kernel(R"(
    mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra LAST;
    W: ld.acquire.gpu.global.u32 %r2, [%rd0]; setp.ne.u32 %p2, %r2, 7; @%p2 bra W; bra END;
    LAST: setp.ne.u32 %p1, %r1, 7; @%p1 bra END; st.release.gpu.global.u32 [%rd0], %r1; END:)"),
                                {}, 32, 1, {}, config);
  EXPECT_TRUE(run.result.clean()) << run.reports();
}

TEST(Coverage, EveryRowNamesItsGroup) {
  const auto rows = instruction_coverage();
  EXPECT_GT(rows.size(), 120U);
  for (const CoverageRow& row : rows) EXPECT_FALSE(row.group.empty());
}

}  // namespace
}  // namespace ptxemu
