// The loop over random problems that the tests of all devices share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "jfa/jfa.hpp"

namespace jfa::testing {

inline std::uint64_t setting(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

// Problems JFA_FUZZ_FIRST … + JFA_FUZZ_PROBLEMS (default `count`): each is draw(number), survives
// its notation, and passes run(problem, line, number), which returns nothing for a problem that is
// not to be run. Stops after 20 failures.
template <typename Draw, typename Run>
void expect_random_problems_pass(std::uint64_t count, const Draw& draw, const Run& run) {
  const std::uint64_t first = setting("JFA_FUZZ_FIRST", 0);
  const std::uint64_t end = first + setting("JFA_FUZZ_PROBLEMS", count);
  int failures = 0;
  for (std::uint64_t number = first; number < end && failures < 20; ++number) {
    const Problem problem = draw(number);
    const std::string line = to_string(problem);
    ASSERT_EQ(parse_problem(line), problem) << line;
    try {
      const std::optional<CheckReport> report = run(problem, line, number);
      if (!report || report->passed()) continue;
      ADD_FAILURE() << line << "   (problem " << number << ")\n" << to_string(*report);
    } catch (const Error& error) {
      ADD_FAILURE() << line << "   (problem " << number << ")\n" << error.what();
    }
    ++failures;
  }
}

}  // namespace jfa::testing
