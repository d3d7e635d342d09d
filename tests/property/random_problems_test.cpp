// Random problems against the float64 reference. JFA_FUZZ_PROBLEMS sets how many (default 2,500),
// JFA_FUZZ_FIRST the number of the first one.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "jfa/jfa.hpp"
#include "random_problem.hpp"

namespace jfa {
namespace {

std::uint64_t setting(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

TEST(RandomProblems, AgreeWithTheReference) {
  const std::uint64_t first = setting("JFA_FUZZ_FIRST", 0);
  const std::uint64_t count = setting("JFA_FUZZ_PROBLEMS", 2500);
  int failures = 0;
  for (std::uint64_t number = first; number < first + count && failures < 20; ++number) {
    const Problem problem = testing::random_problem(number);
    const std::string line = to_string(problem);
    ASSERT_EQ(parse_problem(line), problem) << line;
    try {
      const CheckReport report = check(problem);
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
