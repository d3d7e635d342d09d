// Random problems against the float64 reference. JFA_FUZZ_PROBLEMS sets how many (default 2,500),
// JFA_FUZZ_FIRST the number of the first one.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "jfa/jfa.hpp"
#include "random_problem.hpp"
#include "random_run.hpp"

namespace jfa {
namespace {

TEST(RandomProblems, AgreeWithTheReference) {
  testing::expect_random_problems_pass(
      2500, testing::random_problem,
      [](const Problem& problem, const std::string&, std::uint64_t) -> std::optional<CheckReport> {
        return check(problem);
      });
}

}  // namespace
}  // namespace jfa
