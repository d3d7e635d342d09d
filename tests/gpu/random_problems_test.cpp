// Random problems on a device against the float64 reference. JFA_FUZZ_DEVICE names the device
// (default emulated:sm_90a), JFA_FUZZ_PROBLEMS says how many problems (default 300), JFA_FUZZ_FIRST
// the number of the first one, JFA_FUZZ_KERNELS how many kernels they use (default 24).
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "gpu/test_device.hpp"
#include "jfa/jfa.hpp"
#include "random_problem.hpp"

namespace jfa {
namespace {

std::uint64_t setting(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

TEST(RandomDeviceProblems, AgreeWithTheReference) {
  if (const auto reason = test::why_no_device()) GTEST_SKIP() << *reason;
  const std::uint64_t first = setting("JFA_FUZZ_FIRST", 0);
  const std::uint64_t count = setting("JFA_FUZZ_PROBLEMS", 300);
  const std::uint64_t kernels = setting("JFA_FUZZ_KERNELS", 24);
  Execution execution = test::on_device();
  int failures = 0;
  for (std::uint64_t number = first; number < first + count && failures < 20; ++number) {
    const Problem problem = testing::random_device_problem(number, kernels);
    const std::string line = to_string(problem);
    ASSERT_EQ(parse_problem(line), problem) << line;
    if (test::listed(line)) continue;
    execution.strict_isolation = number % 5 == 1;
    execution.sm_margin = static_cast<int>(number % 4);
    try {
      const CheckReport report = check(problem, execution);
      if (report.passed()) continue;
      ADD_FAILURE() << line << "   (problem " << number << ")\n" << to_string(report);
    } catch (const Error& error) {
      ADD_FAILURE() << line << "   (problem " << number << ")\n" << error.what();
    }
    ++failures;
  }
}

}  // namespace
}  // namespace jfa
