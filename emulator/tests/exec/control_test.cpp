// Divergence, calls, recursion, tables of branch targets, printf and assertions.
#include <gmock/gmock.h>

#include "tests/common/kernel.hpp"

namespace ptxemu {
namespace {

TEST(Control, DivergentLoopsMeetAgain) {
  const auto run = testing::run(testing::kernel(R"(
    mov.u32 %r1, 0; mov.u32 %r2, 0;
    LOOP: setp.ge.u32 %p1, %r1, %r0; @%p1 bra DONE; add.u32 %r2, %r2, %r1; add.u32 %r1, %r1, 1; bra LOOP;
    DONE: activemask.b32 %r3; setp.ne.u32 %p2, %r3, 0xffffffff; @%p2 trap;
    st.global.u32 [%rd3], %r2;)"));
  ASSERT_TRUE(run.result.clean()) << run.reports();
  for (std::uint32_t lane = 1; lane < 32; ++lane) EXPECT_EQ(run.out[lane], lane * (lane - 1) / 2);
}

TEST(Control, ABlockedLaneDoesNotHoldUpItsSiblings) {
  // Lane 0 waits for a flag that lane 1 sets later in the text.
  const auto run = testing::run(testing::kernel(R"(
    .shared .align 4 .b32 flag;
    setp.eq.u32 %p1, %r0, 0;
    @%p1 st.shared.u32 [flag], 0;
    bar.warp.sync -1;
    @!%p1 bra OTHERS;
    SPIN: ld.volatile.shared.u32 %r1, [flag]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN;
    bra MEET;
    OTHERS: st.volatile.shared.u32 [flag], 9; mov.u32 %r1, 1;
    MEET: bar.warp.sync -1; st.global.u32 [%rd3], %r1;)"));
  ASSERT_TRUE(run.result.clean()) << run.reports();
  EXPECT_EQ(run.out[0], 9U);
  EXPECT_EQ(run.out[5], 1U);
}

const char* const kFibonacci = R"(
.func (.param .b32 r) fib(.param .b32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<9>;
  ld.param.u32 %r8, [n];
  setp.lt.s32 %p1, %r8, 2; @%p1 bra END;
  add.s32 %r4, %r8, -1;
  { .param .b32 param0; st.param.b32 [param0+0], %r4; .param .b32 retval0;
    call.uni (retval0), fib, (param0); ld.param.b32 %r5, [retval0+0]; }
  add.s32 %r6, %r8, -2;
  { .param .b32 param0; st.param.b32 [param0+0], %r6; .param .b32 retval0;
    call.uni (retval0), fib, (param0); ld.param.b32 %r7, [retval0+0]; }
  add.s32 %r8, %r7, %r5;
  END: st.param.b32 [r+0], %r8; ret;
})";

TEST(Control, RecursesPerLane) {
  const auto run = testing::run(testing::kernel(R"(
    { .param .b32 param0; and.b32 %r1, %r0, 15; st.param.b32 [param0+0], %r1; .param .b32 retval0;
      call.uni (retval0), fib, (param0); ld.param.b32 %r2, [retval0+0]; }
    st.global.u32 [%rd3], %r2;)",
                                                kFibonacci));
  ASSERT_TRUE(run.result.clean()) << run.reports();
  std::uint32_t a = 0, b = 1;
  for (std::uint32_t lane = 0; lane < 16; ++lane) {
    EXPECT_EQ(run.out[lane], a);
    b += a;
    a = b - a;
  }
}

TEST(Control, EndlessRecursionIsAReport) {
  const auto run = testing::run(testing::kernel("call.uni f;", ".func f() { call.uni f; ret; }"));
  EXPECT_FALSE(run.result.completed);
  EXPECT_TRUE(testing::has(run.result, ReportKind::out_of_bounds)) << run.reports();
}

TEST(Control, CallsThroughPointersAndTables) {
  const auto run =
      testing::run(testing::kernel(R"(
    and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0;
    mov.u64 %rd5, one; mov.u64 %rd6, two; selp.b64 %rd7, %rd5, %rd6, %p1;
    { .param .b32 retval0; PROTO: .callprototype (.param .b32 _) _ (); call (retval0), %rd7, (), PROTO; ld.param.b32 %r2, [retval0+0]; }
    TABLE: .branchtargets A, B;
    brx.idx %r1, TABLE;
    A: add.u32 %r2, %r2, 10; bra END;
    B: add.u32 %r2, %r2, 20;
    END: st.global.u32 [%rd3], %r2;)",
                                   ".func (.param .b32 r) one() { st.param.b32 [r+0], 1; ret; } "
                                   ".func (.param .b32 r) two() { st.param.b32 [r+0], 2; ret; }"));
  ASSERT_TRUE(run.result.clean()) << run.reports();
  EXPECT_EQ(run.out[0], 11U);
  EXPECT_EQ(run.out[1], 22U);
}

TEST(Control, PrintsAndAsserts) {
  const std::string before = R"(
    .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
    .global .align 1 .b8 text[15] = {108, 61, 37, 100, 32, 37, 46, 49, 102, 32, 37, 115, 10, 0};
    .global .align 1 .b8 word[3] = {104, 105, 0};)";
  const auto run = testing::run(testing::kernel(R"(
    .local .align 8 .b8 args[24];
    mov.u64 %rd5, args; st.local.u32 [%rd5], %r0; mov.f64 %fd1, 0d3FF8000000000000; st.local.f64 [%rd5+8], %fd1;
    mov.u64 %rd6, word; st.local.u64 [%rd5+16], %rd6;
    cvta.local.u64 %rd7, %rd5; mov.u64 %rd8, text;
    setp.gt.u32 %p1, %r0, 1; @%p1 bra END;
    { .param .b64 p0; st.param.b64 [p0], %rd8; .param .b64 p1; st.param.b64 [p1], %rd7; .param .b32 v;
      call.uni (v), vprintf, (p0, p1); }
    END:)",
                                                before));
  ASSERT_TRUE(run.result.clean()) << run.reports();
  EXPECT_EQ(run.result.printed, "l=0 1.5 hi\nl=1 1.5 hi\n");
}

TEST(Control, AlignedInstructionsOnADivergedWarpAreReported) {
  const auto run = testing::run(
      testing::kernel("setp.lt.u32 %p1, %r0, 16; @%p1 wgmma.fence.sync.aligned;"), {}, 128);
  EXPECT_TRUE(testing::has(run.result, ReportKind::divergence)) << run.reports();
}

}  // namespace
}  // namespace ptxemu
