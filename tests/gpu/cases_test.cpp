// The cases of tests/cases on a device, as forward problems: each agrees with the reference, or is
// refused because the kernels have no such thing yet. Cases in float32 run in bfloat16.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/test_device.hpp"
#include "jfa/jfa.hpp"

namespace jfa {
namespace {

struct Case {
  std::string name;
  Problem problem;
};

std::ostream& operator<<(std::ostream& stream, const Case& c) {
  return stream << to_string(c.problem);
}

bool is_one_of(std::string_view name, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view p) { return name.starts_with(p); });
}

// Cases that are about head dimensions keep them; those with many rows have the smallest. All
// others share one, since each is one more kernel to compile.
constexpr std::array<std::string_view, 7> kOfDimensions = {"T47", "T53", "T55", "T68",
                                                           "T71", "T73", "T74"};
constexpr std::array<std::string_view, 4> kLarge = {"T24", "T31", "T32", "T50"};

Problem on_gpu(std::string_view name, Problem p) {
  p.direction = Direction::forward;
  p.deterministic = false;
  p.gradients = {};
  p.memory.expanded_gradient = false;
  if (p.dtype == DType::float32) p.dtype = DType::bfloat16;
  if (!is_one_of(name, kOfDimensions) && p.dim <= 64 && p.value_dim <= 64) {
    p.dim = p.value_dim = is_one_of(name, kLarge) ? 8 : 64;
  }
  return p;
}

// JFA_CASES_DIRECTORY in the environment: the program runs on another machine than it was built on.
std::vector<Case> read_cases() {
  const char* directory = std::getenv("JFA_CASES_DIRECTORY");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           directory != nullptr ? directory : JFA_CASES_DIRECTORY)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const auto& path : files) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      const std::size_t space = line.find(' ');
      if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
      const std::string name = line.substr(0, space);
      cases.push_back({name, on_gpu(name, parse_problem(line.substr(space + 1)))});
    }
  }
  return cases;
}

// What the refusal says, or nothing when the kernels cover the problem.
std::optional<std::string> expected_refusal(const Problem& p) {
  const auto covered = [](std::int64_t dim) { return dim % 8 == 0 && dim <= 256; };
  if (!covered(p.dim)) return "q: head dimension " + std::to_string(p.dim);
  if (!covered(p.value_dim)) return "v: head dimension " + std::to_string(p.value_dim);
  if (p.bias.dense) return "bias.dense: present";
  if (p.bias.alibi) return "bias.alibi_slopes: present";
  if (p.bias.position > 0) return "bias.position_table: present";
  if (p.bias.time > 0) return "bias.time_table: present";
  return std::nullopt;
}

std::string name_of(const ::testing::TestParamInfo<Case>& one) {
  return one.param.name;
}

class DeviceCases : public ::testing::TestWithParam<Case> {};

TEST_P(DeviceCases, AgreesOrIsRefused) {
  if (const auto reason = test::why_no_device()) GTEST_SKIP() << *reason;
  const Problem& problem = GetParam().problem;
  const std::optional<std::string> refusal = expected_refusal(problem);
  if (!refusal) {
    if (test::listed(to_string(problem))) return;
    const CheckReport report = check(problem, test::on_device());
    EXPECT_TRUE(report.passed()) << to_string(problem) << '\n' << to_string(report);
    return;
  }
  if (std::getenv("JFA_LIST_PROBLEMS") != nullptr) return;
  try {
    check(problem, test::on_device());
    ADD_FAILURE() << to_string(problem) << " was not refused";
  } catch (const Unsupported& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with(*refusal)) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceCases, ::testing::ValuesIn(read_cases()), name_of);

}  // namespace
}  // namespace jfa
