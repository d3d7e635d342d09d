// Random problems on a device against the float64 reference. JFA_FUZZ_DEVICE names the device
// (default emulated:sm_90a), JFA_FUZZ_PROBLEMS says how many problems (default 300), JFA_FUZZ_FIRST
// the number of the first one, JFA_FUZZ_KERNELS how many kernels they use (default 24).
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "gpu/test_device.hpp"
#include "jfa/jfa.hpp"
#include "random_problem.hpp"
#include "random_run.hpp"

namespace jfa {
namespace {

TEST(RandomDeviceProblems, AgreeWithTheReference) {
  if (const auto reason = test::why_no_device()) GTEST_SKIP() << *reason;
  const std::uint64_t kernels = testing::setting("JFA_FUZZ_KERNELS", 24);
  Execution execution = test::on_device();
  testing::expect_random_problems_pass(
      300, [&](std::uint64_t number) { return testing::random_device_problem(number, kernels); },
      [&](const Problem& problem, const std::string& line,
          std::uint64_t number) -> std::optional<CheckReport> {
        if (test::listed(line)) return std::nullopt;
        execution.strict_isolation = number % 5 == 1;
        execution.sm_margin = static_cast<int>(number % 4);
        return check(problem, execution);
      });
}

}  // namespace
}  // namespace jfa
