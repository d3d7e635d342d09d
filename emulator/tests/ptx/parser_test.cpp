// Malformed and unsupported texts: the message names file, line, the offender and what is allowed.
#include <gmock/gmock.h>

#include "tests/common/kernel.hpp"

namespace ptxemu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string load_error(const std::string& ptx, ErrorKind kind) {
  Device device;
  try {
    (void)device.load(ptx, "test.ptx");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(error.position().ptx_line, 0U);
    return error.what();
  }
  ADD_FAILURE() << "loaded without an error";
  return {};
}

TEST(Parser, NamesAnUnknownModifierAndTheSupportedOnes) {
  EXPECT_THAT(load_error(testing::kernel("add.rx.f32 %f1, %f2, %f3;"), ErrorKind::unsupported),
              AllOf(HasSubstr("test.ptx:19"), HasSubstr("'.rx'"), HasSubstr(".rn|.rz|.rm|.rp"),
                    HasSubstr("add.rx.f32")));
}

TEST(Parser, NamesAnUnknownOpcodeAndItsRelatives) {
  EXPECT_THAT(load_error(testing::kernel("mbarrier.wait.b64 %p1, [%r1];"), ErrorKind::unsupported),
              AllOf(HasSubstr("mbarrier.wait"), HasSubstr("mbarrier.try_wait")));
}

TEST(Parser, RefusesRegistersOfTheWrongSize) {
  EXPECT_THAT(load_error(testing::kernel("add.s64 %rd1, %rd2, %r1;"), ErrorKind::parse),
              HasSubstr("'%r1' (32 bits)"));
}

TEST(Parser, RefusesUndeclaredRegistersAndMissingLabels) {
  EXPECT_THAT(load_error(testing::kernel("mov.b32 %q1, 0;"), ErrorKind::parse), HasSubstr("%q1"));
  EXPECT_THAT(load_error(testing::kernel("bra NOWHERE;"), ErrorKind::parse), HasSubstr("NOWHERE"));
}

TEST(Parser, RefusesReadsBeyondAParameter) {
  EXPECT_THAT(load_error(testing::kernel("ld.param.u64 %rd5, [in+8];"), ErrorKind::parse),
              HasSubstr("beyond parameter 'in'"));
}

TEST(Parser, LabelsAndRegistersAreScoped) {
  const auto run = testing::run(testing::kernel(R"(
    mov.u32 %r1, 0;
    { .reg .b32 %r1; .reg .pred P; mov.u32 %r1, 7; setp.eq.u32 P, %r1, 7; @P bra DONE; mov.u32 %r1, 8; DONE: }
    { .reg .pred P; setp.eq.u32 P, %r1, 0; @!P bra DONE; add.u32 %r1, %r1, 5; DONE: }
    st.global.u32 [%rd3], %r1;)"));
  EXPECT_TRUE(run.result.clean()) << run.reports();
  EXPECT_EQ(run.out[3], 5U);
}

TEST(Parser, EndsWithinBoundsOnHostileTexts) {
  const std::string start = ".version 8.0 .target sm_90a .address_size 64 ";
  for (const std::string& text :
       {std::string(), std::string("\0", 1), start + ".entry k() {" + std::string(100000, '{'),
        start + ".entry k() { .reg .b32 %r<4000000000>; }",
        start + ".global .b8 a[9999999999][9999999999];",
        start + ".entry k() { .local .b8 a[99999999]; ret; }", start + "/* never closed",
        start + ".entry k() { mov.b32 {" + std::string(10000, '{') + "; }",
        start + ".global .b32 a[] = {1,{2,{3",
        start + ".entry k(.param .b8 a[999999999]) { ret; }"}) {
    DeviceOptions options;
    options.memory_limit_bytes = 1 << 20;
    Device device(options);
    try {
      (void)device.load(text, "hostile.ptx");
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace ptxemu
