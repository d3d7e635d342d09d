// The sub-commands of the tool. Each function adds one to the application; when the user picks it,
// its callback runs and leaves the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "jfa/attention.hpp"
#include "measure/machine.hpp"

namespace jfa::tool {

enum ExitCode : int { kSuccess = 0, kFailure = 1, kUsage = 2 };

// The command line itself is wrong: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Refuse what the option's type would round, wrap or saturate: "-1" as a seed, "1e99", "nan".
CLI::Validator whole_number(std::int64_t least);
CLI::Validator whole_number(std::int64_t least, std::int64_t most);
CLI::Validator seed_number();
CLI::Validator number(double least, double most);

// Options that the commands share.
struct CommonOptions {
  std::string device = "cpu";
  int threads = 0;
  bool json = false;

  void add_to(CLI::App& command);
  Execution execution() const;  // throws UsageError for a malformed device
};

// Measures the machine and says so meanwhile.
MachinePeak measure_peak(int threads);

void add_check(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_info(CLI::App& app, int& exit_code);
void add_cache(CLI::App& app, int& exit_code);
void add_bundle(CLI::App& app, int& exit_code);

}  // namespace jfa::tool
