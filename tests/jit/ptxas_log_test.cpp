#include "jit/ptxas_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace jfa::jit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// As NVRTC 13.0 and 13.5 print it.
constexpr const char* kTwoKernels = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 3 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 67.286 ms
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 22 registers
ptxas info    : Compile time = 1.0 ms
)";

TEST(PtxasLog, FindsTheKernelAmongOthers) {
  const PtxasLog first = parse_ptxas_log(kTwoKernels, "first");
  ASSERT_TRUE(first.resources.has_value());
  EXPECT_EQ(*first.resources, (KernelResources{.registers = 255,
                                               .spill_store_bytes = 8,
                                               .spill_load_bytes = 12,
                                               .stack_bytes = 16,
                                               .static_shared_bytes = 1024,
                                               .barriers = 3}));
  EXPECT_THAT(first.remarks, IsEmpty());
  EXPECT_EQ(parse_ptxas_log(kTwoKernels, "second").resources, KernelResources{.registers = 22});
}

TEST(PtxasLog, AbsentKernelHasNoResources) {
  EXPECT_FALSE(parse_ptxas_log(kTwoKernels, "third").resources.has_value());
  EXPECT_FALSE(parse_ptxas_log("", "third").resources.has_value());
}

TEST(PtxasLog, KeepsWarningsAndPerformanceRemarks) {
  const PtxasLog log = parse_ptxas_log(
      "kernels/a.cu(3): warning #177-D: variable \"x\" was declared but never referenced\n"
      "\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized\n"
      "ptxas info    : 0 bytes gmem",
      "f");
  EXPECT_THAT(log.remarks,
              ElementsAre("kernels/a.cu(3): warning #177-D: variable \"x\" was declared but never "
                          "referenced",
                          "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async "
                          "instructions are serialized"));
}

}  // namespace
}  // namespace jfa::jit
