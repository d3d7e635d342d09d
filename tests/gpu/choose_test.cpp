// The choice of kernels: instances, reasons, copies, refusals. Needs no device and no compiler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gpu/rows.hpp"
#include "jfa/jfa.hpp"

namespace jfa {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

KernelChoice choice_of(const std::string& line) {
  const ProblemInstance instance(parse_problem(line));
  return choose_forward(instance.forward(), "sm_90a");
}

TEST(Choose, TheInstanceNamesTypeDimensionsActivationMaskAndPacking) {
  const KernelChoice choice =
      choice_of("fwd fp16 d=40 dv=72 h=8 hkv=2 act=silu mask=hstu:targets=2 out_scales=token q=9");
  EXPECT_EQ(choice.source, "attention/sm90/forward.cu");
  EXPECT_THAT(choice.entry,
              HasSubstr("ForwardConfig<jfa::tlx::f16, 48, 80, jfa::kernels::Activation::silu, "
                        "jfa::kernels::MaskParameters::hstu, 4, true"));
  EXPECT_EQ(choice.packed_heads, 4);
  EXPECT_THAT(choice.reasons, Contains(HasSubstr("48 columns computed for 40")));
  EXPECT_THAT(to_string(choice), HasSubstr(choice.entry));
}

TEST(Choose, EverythingThatACallLaunchesCanBeCompiledAhead) {
  const ProblemInstance instance(parse_problem("fwd bf16 d=64 h=2 mask=causal q=9"));
  const auto requests = kernel_requests(instance.forward(), "sm_90a", jit::ImageKind::ptx);
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[1].source, "plan/plan.cu");
  EXPECT_EQ(requests[2].source, "attention/copy_rows.cu");
  for (const auto& request : requests) EXPECT_EQ(request.kind, jit::ImageKind::ptx);
}

TEST(Choose, ArchitecturesWithoutKernelsAreRefused) {
  const ProblemInstance instance(parse_problem("fwd bf16 d=64 h=2 q=9"));
  try {
    choose_forward(instance.forward(), "sm_80");
    ADD_FAILURE() << "not refused";
  } catch (const Unsupported& error) {
    EXPECT_THAT(error.what(), StartsWith("device: its architecture is sm_80"));
  }
}

std::string why_copied(const std::string& line) {
  const ProblemInstance instance(parse_problem(line));
  const char* reason = gpu::input_rows(instance.forward()).k.copied;
  return reason != nullptr ? reason : "";
}

TEST(Choose, OnlyWhatATensorMapCannotDescribeIsCopied) {
  EXPECT_EQ(why_copied("fwd bf16 d=64 h=2 q=9,4 fused headgap=8 rowgap=64 offset0=3"), "");
  EXPECT_EQ(why_copied("fwd bf16 d=64 h=2 q=dense:batch=3,rows=5"), "");
  EXPECT_EQ(why_copied("fwd bf16 d=64 h=2 q=9,4 misalign=8"), "");
  EXPECT_THAT(why_copied("fwd bf16 d=64 h=2 q=9,4 misalign=4"), HasSubstr("address"));
  EXPECT_THAT(why_copied("fwd bf16 d=64 h=2 q=9,4 rowgap=4"), HasSubstr("row stride"));
  EXPECT_THAT(why_copied("fwd bf16 d=64 h=2 q=9,4 headgap=4"), HasSubstr("head stride"));
  // With one head its stride means nothing.
  EXPECT_EQ(why_copied("fwd bf16 d=64 h=1 q=9,4 headgap=4 rowgap=4"), "");
}

TEST(Choose, SequencesOfDenseTensorsLieWholeRowsApart) {
  const ProblemInstance instance(parse_problem("fwd bf16 d=64 h=2 q=dense:batch=3,rows=5"));
  ForwardArgs args = instance.forward();
  args.k.strides[0] = 7 * args.k.strides[1];  // padded: 7 rows from one sequence to the next
  args.v.strides[0] = 6 * args.v.strides[1];
  const gpu::InputRows rows = gpu::input_rows(args);
  EXPECT_EQ(rows.k.sequence_rows, 7);
  EXPECT_EQ(rows.k.copied, nullptr);
  EXPECT_EQ(rows.v.sequence_rows, 7) << "a copy has its rows at the same places as k";
  EXPECT_NE(rows.v.copied, nullptr);
  args.k.strides[0] = 0;  // one block for all sequences, while v has one each
  const gpu::InputRows expanded = gpu::input_rows(args);
  EXPECT_EQ(expanded.k.sequence_rows, expanded.v.sequence_rows);
  EXPECT_GE(expanded.k.sequence_rows, 5);
  EXPECT_NE(expanded.k.copied, nullptr);
}

TEST(Choose, SignsThatSoftmaxCannotHaveGoIntoTheQueries) {
  for (const auto& [line, sign] :
       {std::pair{"fwd bf16 d=64 h=1 scale=-0.5 q=4", gpu::Rows::Sign::flipped},
        std::pair{"fwd bf16 d=64 h=1 scale=0 q=4", gpu::Rows::Sign::zero},
        std::pair{"fwd bf16 d=64 h=1 scale=0.5 q=4", gpu::Rows::Sign::kept},
        std::pair{"fwd bf16 d=64 h=1 act=silu scale=-1 q=4", gpu::Rows::Sign::kept}}) {
    const ProblemInstance instance(parse_problem(line));
    const gpu::Rows q = gpu::input_rows(instance.forward()).q;
    EXPECT_EQ(q.sign, sign) << line;
    EXPECT_EQ(q.copied != nullptr, sign != gpu::Rows::Sign::kept) << line;
  }
}

}  // namespace
}  // namespace jfa
