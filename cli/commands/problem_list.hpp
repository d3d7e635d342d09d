// One-line problems from the command line and from files.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "jfa/problem.hpp"

namespace jfa::tool {

struct ProblemOptions {
  std::vector<std::string> lines;
  std::vector<std::string> files;

  void add_to(CLI::App& command);
};

struct NamedProblem {
  std::string line;  // as the user wrote it
  Problem problem;
};

// Empty lines and lines that start with # are skipped in files. Throws UsageError for a line that
// is no problem (with file and line number), a file that cannot be read, or when there is none.
std::vector<NamedProblem> read_problems(const ProblemOptions& options);

}  // namespace jfa::tool
