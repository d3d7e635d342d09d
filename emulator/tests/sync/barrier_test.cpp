// Named barriers, mbarriers, cluster barriers, and what happens when they are used wrongly.
#include <gmock/gmock.h>

#include "tests/common/kernel.hpp"

namespace ptxemu {
namespace {

using ::testing::HasSubstr;

DeviceOptions with(Schedule schedule, std::uint64_t seed = 1) {
  DeviceOptions options;
  options.schedule = schedule;
  options.seed = seed;
  options.time_budget_seconds = 60;
  return options;
}

class Schedules : public ::testing::TestWithParam<Schedule> {};
INSTANTIATE_TEST_SUITE_P(All, Schedules,
                         ::testing::Values(Schedule::eager, Schedule::lazy, Schedule::reverse,
                                           Schedule::random));

TEST_P(Schedules, NamedBarriersOrderWarps) {
  const auto run = testing::run(testing::kernel(R"(
    .shared .align 4 .b8 words[512];
    mov.u32 %r1, words; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2;
    st.shared.u32 [%r3], %r0;
    bar.sync 1, 128;
    xor.b32 %r4, %r2, 508; add.u32 %r4, %r1, %r4; ld.shared.u32 %r5, [%r4];
    st.global.u32 [%rd3], %r5;)"),
                                {}, 128, 0, with(GetParam()));
  ASSERT_TRUE(run.result.clean()) << run.reports();
  for (std::uint32_t t = 0; t < 128; ++t) EXPECT_EQ(run.out[t], 127 - t);
}

TEST_P(Schedules, MbarrierPhasesPassDataBetweenWarps) {
  // Warp 0 fills a word, warp 1 reads it, eight times; two barriers with changing parity.
  const auto run = testing::run(testing::kernel(R"(
    .shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .align 4 .b8 data[128];
    setp.ne.u32 %p1, %r0, 0; @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 32; mbarrier.init.shared::cta.b64 [empty], 32;
    READY: bar.sync 0;
    and.b32 %r1, %r0, 31; shl.b32 %r1, %r1, 2; mov.u32 %r2, data; add.u32 %r1, %r1, %r2;
    mov.u32 %r3, 0; mov.u32 %r9, 0;
    setp.gt.u32 %p2, %r0, 31; @%p2 bra CONSUMER;
    PRODUCE: and.b32 %r4, %r3, 1; xor.b32 %r5, %r4, 1;
    W1: mbarrier.try_wait.parity.shared::cta.b64 %p3, [empty], %r5; @!%p3 bra W1;
    mul.lo.u32 %r6, %r3, %r0; st.shared.u32 [%r1], %r6;
    mbarrier.arrive.shared::cta.b64 _, [full];
    add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 8; @%p4 bra PRODUCE; bra END;
    CONSUMER: and.b32 %r4, %r3, 1;
    W2: mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], %r4; @!%p3 bra W2;
    ld.shared.u32 %r6, [%r1]; add.u32 %r9, %r9, %r6;
    mbarrier.arrive.shared::cta.b64 %rd6, [empty];
    add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 8; @%p4 bra CONSUMER;
    END: st.global.u32 [%rd3], %r9;)"),
                                {}, 64, 0, with(GetParam()));
  ASSERT_TRUE(run.result.clean()) << run.reports();
  for (std::uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(run.out[32 + lane], 28 * lane);
}

TEST(Deadlock, NamesBarrierPhaseAndLine) {
  const auto run = testing::run(testing::kernel(R"(
    .shared .align 8 .b64 full;
    setp.ne.u32 %p1, %r0, 0; @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 2;
    READY: bar.warp.sync -1;
    @!%p1 mbarrier.arrive.shared::cta.b64 _, [full];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0; @!%p3 bra W;)"));
  ASSERT_TRUE(testing::has(run.result, ReportKind::deadlock)) << run.reports();
  EXPECT_THAT(run.reports(), HasSubstr("full+0x0"));
  EXPECT_THAT(run.reports(), HasSubstr("1 of 2 arrivals"));
}

// Runs a kernel of two CTAs of a warp each, with one host thread and with two.
std::vector<testing::Run> run_two_ctas(const std::string& body,
                                       const std::vector<std::uint32_t>& memory) {
  LaunchConfig two_ctas;
  two_ctas.grid = {2, 1, 1};
  std::vector<testing::Run> runs;
  for (const std::uint32_t threads : {1u, 2u}) {
    DeviceOptions options;
    options.threads = threads;
    runs.push_back(testing::run(testing::kernel(body), memory, 32, 0, options, two_ctas));
  }
  return runs;
}

TEST(Deadlock, SleepingPollsThatNothingEndsNameTheAddress) {
  // Every CTA sleeps until CTA 7 of a grid of 2 sets a flag.
  for (const auto& run : run_two_ctas(R"(
    mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 7; @%p1 bra POLL;
    st.global.u32 [%rd1], 1;
    POLL: nanosleep.u32 100;
    ld.acquire.gpu.global.u32 %r2, [%rd1+8]; setp.eq.u32 %p2, %r2, 0; @%p2 bra POLL;)",
                                      {0, 0, 0})) {
    ASSERT_TRUE(testing::has(run.result, ReportKind::deadlock)) << run.reports();
    EXPECT_THAT(run.reports(), HasSubstr("it polls 0x"));
    EXPECT_THAT(run.reports(), HasSubstr("ld at test.ptx:"));
  }
}

TEST(Deadlock, SleepingPollsThatAnotherCtaEndsAreNone) {
  // CTA 1 sets the flag after three million instructions, in which CTA 0 looks more often than the
  // patience with sleepers allows.
  for (const auto& run : run_two_ctas(R"(
    mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra WORK;
    POLL: nanosleep.u32 100;
    ld.acquire.gpu.global.u32 %r2, [%rd1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra POLL;
    bra END;
    WORK: mov.u32 %r3, 0;
    LOOP: add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 1000000; @%p3 bra LOOP;
    st.release.gpu.global.u32 [%rd1], 1;
    END:)",
                                      {0})) {
    EXPECT_TRUE(run.result.clean()) << run.reports();
  }
}

TEST(Budget, NamesWhereThreadsStandAndWhatTheyPoll) {
  DeviceOptions options;
  options.instruction_budget = 10000;
  const auto run = testing::run(testing::kernel(R"(
    POLL: ld.volatile.global.u32 %r2, [%rd1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra POLL;)"),
                                {0}, 32, 0, options);
  ASSERT_TRUE(testing::has(run.result, ReportKind::budget_exceeded)) << run.reports();
  EXPECT_THAT(run.reports(), HasSubstr("it polls 0x"));
}

TEST(Deadlock, MissingThreadsAtANamedBarrier) {
  const auto run = testing::run(
      testing::kernel("setp.gt.u32 %p1, %r0, 31; @%p1 bra A; bar.sync 1, 64; A: bar.sync 2, 64;"),
      {}, 64);
  ASSERT_TRUE(testing::has(run.result, ReportKind::deadlock)) << run.reports();
  EXPECT_THAT(run.reports(), HasSubstr("cycle of waits"));
}

TEST(Protocol, TooManyArrivals) {
  const auto run = testing::run(testing::kernel(R"(
    .shared .align 8 .b64 full;
    setp.ne.u32 %p1, %r0, 0; @%p1 bra END;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.arrive.shared::cta.b64 _, [full], 2; END:)"));
  EXPECT_TRUE(testing::has(run.result, ReportKind::barrier_protocol)) << run.reports();
}

TEST(Protocol, ABarrierLivesInItsBytes) {
  const auto run = testing::run(testing::kernel(R"(
    .shared .align 8 .b64 full;
    setp.ne.u32 %p1, %r0, 0; @%p1 bra END;
    mbarrier.init.shared::cta.b64 [full], 1;
    st.shared.u64 [full], 0;
    mbarrier.arrive.shared::cta.b64 _, [full]; END:)"));
  EXPECT_TRUE(testing::has(run.result, ReportKind::barrier_protocol)) << run.reports();
}

TEST_P(Schedules, ClustersShareMemoryAndBarriers) {
  LaunchConfig config;
  config.grid = {4, 1, 1};
  config.cluster = {2, 1, 1};
  const auto run = testing::run(testing::kernel(R"(
    .shared .align 4 .b32 word;
    mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %ctaid.x; mov.u32 %r3, word;
    st.shared.u32 [word], %r2;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    xor.b32 %r4, %r1, 1; mapa.shared::cluster.u32 %r5, %r3, %r4;
    ld.shared::cluster.u32 %r6, [%r5];
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mad.lo.u32 %r7, %r2, 32, %r0; mul.wide.u32 %rd5, %r7, 4; add.u64 %rd6, %rd0, %rd5;
    st.global.u32 [%rd6], %r6;)"),
                                {}, 32, 128, with(GetParam()), config);
  ASSERT_TRUE(run.result.clean()) << run.reports();
  for (std::uint32_t i = 0; i < 128; ++i) EXPECT_EQ(run.out[i], (i / 32) ^ 1);
}

}  // namespace
}  // namespace ptxemu
