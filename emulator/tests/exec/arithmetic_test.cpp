// Scalar instructions whose results are known by hand.
#include "tests/common/kernel.hpp"

namespace ptxemu {
namespace {

std::uint32_t evaluate(const std::string& body, std::uint32_t a = 0, std::uint32_t b = 0) {
  std::vector<std::uint32_t> in(64);
  in[0] = a;
  in[1] = b;
  const auto run =
      testing::run(testing::kernel("ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1+4];" +
                                   body + " st.global.u32 [%rd3], %r3;"),
                   in);
  EXPECT_TRUE(run.result.clean()) << run.reports();
  for (const std::uint32_t lane : run.out) EXPECT_EQ(lane, run.out[0]);
  return run.out[0];
}

TEST(Integer, WrapsAndSaturates) {
  EXPECT_EQ(evaluate("add.s32 %r3, %r1, %r2;", 0x7fffffff, 1), 0x80000000U);
  EXPECT_EQ(evaluate("add.sat.s32 %r3, %r1, %r2;", 0x7fffffff, 1), 0x7fffffffU);
  EXPECT_EQ(evaluate("mul.hi.u32 %r3, %r1, %r2;", 0xffffffff, 0xffffffff), 0xfffffffeU);
  EXPECT_EQ(evaluate("mad.lo.s32 %r3, %r1, %r2, %r1;", 7, 6), 49U);
  EXPECT_EQ(evaluate("div.s32 %r3, %r1, %r2;", 0x80000000, 0xffffffff), 0x80000000U);
  EXPECT_EQ(evaluate("rem.s32 %r3, %r1, %r2;", static_cast<std::uint32_t>(-7), 3),
            static_cast<std::uint32_t>(-1));
  EXPECT_EQ(evaluate("shl.b32 %r3, %r1, %r2;", 1, 40), 0U);
  EXPECT_EQ(evaluate("shr.s32 %r3, %r1, %r2;", 0x80000000, 40), 0xffffffffU);
  EXPECT_EQ(evaluate("shf.l.wrap.b32 %r3, %r1, %r2, 8;", 0xaabbccdd, 0x11223344), 0x223344aaU);
  EXPECT_EQ(evaluate("bfe.s32 %r3, %r1, 4, 8;", 0xff0), 0xffffffffU);
  EXPECT_EQ(evaluate("bfi.b32 %r3, %r1, %r2, 8, 4;", 0x5, 0xffffffff), 0xfffff5ffU);
  EXPECT_EQ(evaluate("prmt.b32 %r3, %r1, %r2, 0x5410;", 0x33221100, 0x77665544), 0x55441100U);
  EXPECT_EQ(evaluate("lop3.b32 %r3, %r1, %r2, 255, 0xEA;", 0xf0, 0x3c), (0xf0U & 0x3cU) | 255U);
  EXPECT_EQ(evaluate("bfind.u32 %r3, %r1;", 0x100), 8U);
  EXPECT_EQ(evaluate("add.cc.u32 %r4, %r1, %r2; addc.u32 %r3, 0, 0;", 0xffffffff, 1), 1U);
}

TEST(Float, RoundsFlushesAndCanonicalises) {
  EXPECT_EQ(
      evaluate("mov.b32 %f1, %r1; mov.b32 %f2, %r2; add.rz.f32 %f3, %f1, %f2; mov.b32 %r3, %f3;",
               0x3f800000, 0x33800001),
      0x3f800000U);
  EXPECT_EQ(
      evaluate("mov.b32 %f1, %r1; mul.ftz.f32 %f3, %f1, 0f3F800000; mov.b32 %r3, %f3;", 0x00000001),
      0U);
  EXPECT_EQ(evaluate("mov.b32 %f1, %r1; add.f32 %f3, %f1, %f1; mov.b32 %r3, %f3;", 0x7fc12345),
            0x7fffffffU);
  EXPECT_EQ(evaluate("mov.b32 %f1, %r1; mov.b32 %f2, %r2; max.f32 %f3, %f1, %f2; mov.b32 %r3, %f3;",
                     0x80000000, 0),
            0U);
  EXPECT_EQ(
      evaluate("mov.b32 %f1, %r1; max.NaN.f32 %f3, %f1, 0f00000000; mov.b32 %r3, %f3;", 0x7fc00000),
      0x7fffffffU);
  EXPECT_EQ(evaluate("mov.b32 %f1, %r1; cvt.rzi.s32.f32 %r3, %f1;", 0xc2280000),
            static_cast<std::uint32_t>(-42));
  EXPECT_EQ(evaluate("mov.b32 %f1, %r1; cvt.rn.f16x2.f32 %r3, %f1, 0f40000000;", 0x3f800000),
            0x3c004000U);
}

TEST(Packing, MovesHalvesAndWideRegisters) {
  EXPECT_EQ(evaluate("mov.b32 {%h1, %h2}, %r1; mov.b32 %r3, {%h2, %h1};", 0x12345678), 0x56781234U);
  EXPECT_EQ(evaluate("mov.b64 %rd5, {%r1, %r2}; shr.u64 %rd5, %rd5, 16; cvt.u32.u64 %r3, %rd5;",
                     0x11112222, 0x33334444),
            0x44441111U);
}

TEST(Warp, ShufflesVotesAndReduces) {
  const auto run = testing::run(testing::kernel(R"(
    shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;
    redux.sync.add.s32 %r2, %r0, -1;
    setp.gt.u32 %p1, %r0, 15;
    vote.sync.ballot.b32 %r3, %p1, -1;
    match.any.sync.b32 %r4, %r2, -1;
    elect.sync %r5|%p2, -1;
    selp.u32 %r6, 1, 0, %p2;
    xor.b32 %r1, %r1, %r2; xor.b32 %r1, %r1, %r3; xor.b32 %r1, %r1, %r4; add.u32 %r1, %r1, %r6;
    st.global.u32 [%rd3], %r1;)"));
  ASSERT_TRUE(run.result.clean()) << run.reports();
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(run.out[lane], ((lane ^ 1) ^ 496U ^ 0xffff0000U ^ 0xffffffffU) + (lane == 0 ? 1 : 0));
}

}  // namespace
}  // namespace ptxemu
