// Every line of problems/*.txt: "name problem", compared with the float64 reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "jfa/jfa.hpp"

namespace jfa {
namespace {

struct Case {
  std::string name;
  std::string problem;
};

std::ostream& operator<<(std::ostream& stream, const Case& c) {
  return stream << c.problem;
}

std::vector<Case> read_cases() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(JFA_CASES_DIRECTORY)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  std::set<std::string> names;
  for (const auto& path : files) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      const std::size_t space = line.find(' ');
      if (space == std::string::npos || !names.insert(line.substr(0, space)).second) {
        throw std::runtime_error(path.string() +
                                 ": a name without a problem, or used twice: " + line);
      }
      cases.push_back({line.substr(0, space), line.substr(space + 1)});
    }
  }
  return cases;
}

std::string name_of(const ::testing::TestParamInfo<Case>& one) {
  return one.param.name;
}

class Cases : public ::testing::TestWithParam<Case> {};

TEST_P(Cases, AgreesWithTheReference) {
  const CheckReport report = check(parse_problem(GetParam().problem));
  EXPECT_TRUE(report.passed()) << GetParam().problem << '\n' << to_string(report);
}

INSTANTIATE_TEST_SUITE_P(All, Cases, ::testing::ValuesIn(read_cases()), name_of);

}  // namespace
}  // namespace jfa
