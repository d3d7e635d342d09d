#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/emulated_gpu.hpp"
#include "jfa/error.hpp"
#include "jfa/runtime.hpp"

namespace jfa::device {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(EmulatorOptions, Parsed) {
  const ptxemu::DeviceOptions options = parse_emulator_options(
      "schedule=random,seed=7,checks=races+protocol,threads=2,multiprocessors=8,budget=1000");
  EXPECT_EQ(options.schedule, ptxemu::Schedule::random);
  EXPECT_EQ(options.seed, 7U);
  EXPECT_TRUE(options.checks.races);
  EXPECT_FALSE(options.checks.uninitialised);
  EXPECT_TRUE(options.checks.protocol);
  EXPECT_EQ(options.threads, 2U);
  EXPECT_EQ(options.multiprocessors, 8U);
  EXPECT_EQ(options.instruction_budget, 1000U);
  EXPECT_FALSE(parse_emulator_options("").checks.any());
  EXPECT_TRUE(parse_emulator_options("checks=all").checks.uninitialised);
}

TEST(EmulatorOptions, MistakesListWhatIsAllowed) {
  const auto mistake = [](const char* text, const char* answer) {
    EXPECT_THAT([&] { parse_emulator_options(text); },
                ThrowsMessage<InvalidArgument>(HasSubstr(answer)));
  };
  mistake("speed=1", "schedule, seed, checks");
  mistake("schedule=sometimes", "eager, lazy, reverse, random");
  mistake("checks=some", "races, uninitialised, protocol, all");
  mistake("seed=", "seed: ''");
  mistake("seed=-1", "seed: '-1'");
}

// A fault of the kernel is the error of its launch, with the line of the source.
TEST(EmulatedDriver, OutOfBoundsAccessIsAnErrorWithItsLine) {
  runtime::Context& context = runtime::open(parse_device("emulated:sm_90a"));
  const runtime::Buffer memory(context, 16);
  const runtime::Kernel& kernel =
      context.kernel("examples/vector_add.cu", "jfa::examples::vector_add");
  EXPECT_THAT(
      [&] {
        kernel.launch({.grid = {1}, .block = {32}}, memory.data(), memory.data(), memory.data(),
                      1000);
      },
      ThrowsMessage<DeviceError>(HasSubstr("vector_add.cu:")));
}

}  // namespace
}  // namespace jfa::device
