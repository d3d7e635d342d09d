#include "commands/problem_list.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "commands/commands.hpp"
#include "jfa/error.hpp"

namespace jfa::tool {
namespace {

NamedProblem parse_line(const std::string& line, const std::string& where) {
  try {
    return {line, parse_problem(line)};
  } catch (const InvalidArgument& error) {
    throw UsageError(where + error.what());
  }
}

void read_file(const std::string& path, std::vector<NamedProblem>& problems) {
  std::ifstream file(path);
  if (!file) throw UsageError(fmt::format("--file {}: {}", path, std::strerror(errno)));
  if (std::filesystem::is_directory(path)) {
    throw UsageError(fmt::format("--file {}: a folder", path));
  }
  constexpr std::size_t kLongest = std::size_t{1} << 24;
  std::string line;
  int number = 0;
  for (int c = file.get(); c != EOF; c = file.get()) {
    line.clear();
    for (; c != EOF && c != '\n'; c = file.get()) {
      line.push_back(static_cast<char>(c));
      if (line.size() > kLongest) {
        throw UsageError(fmt::format("{}:{}: a line of more than {} bytes is no problem", path,
                                     number + 1, kLongest));
      }
    }
    ++number;
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    line = line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
    problems.push_back(parse_line(line, fmt::format("{}:{}: ", path, number)));
  }
}

}  // namespace

void ProblemOptions::add_to(CLI::App& command) {
  command.add_option("problem", lines,
                     "One-line problems, for example \"fwd fp32 d=64 h=4 mask=causal q=17,0,513\"");
  command.add_option("--file", files, "A file with one problem a line; # starts a comment")
      ->type_name("FILE");
}

std::vector<NamedProblem> read_problems(const ProblemOptions& options) {
  std::vector<NamedProblem> problems;
  problems.reserve(options.lines.size());
  for (const std::string& line : options.lines) problems.push_back(parse_line(line, ""));
  for (const std::string& path : options.files) read_file(path, problems);
  if (problems.empty()) {
    throw UsageError("no problem given; put one in quotes behind the command, or use --file");
  }
  return problems;
}

}  // namespace jfa::tool
