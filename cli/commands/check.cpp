// jfa check: compares an engine with the float64 reference.
#include "jfa/check.hpp"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands/commands.hpp"
#include "commands/problem_list.hpp"
#include "jfa/error.hpp"
#include "terminal/progress.hpp"
#include "terminal/style.hpp"

namespace jfa::tool {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  ProblemOptions problems;
  CommonOptions common;
};

// What became of one problem: a report, or the reason why it was refused.
struct Outcome {
  std::string line;
  CheckReport report;
  std::string refusal;

  bool passed() const { return refusal.empty() && report.passed(); }
};

Outcome check_one(const NamedProblem& problem, const Execution& execution) {
  Outcome outcome{problem.line, {}, {}};
  try {
    outcome.report = check(problem.problem, execution);
  } catch (const Error& error) {
    outcome.refusal = error.what();
  }
  return outcome;
}

void print(const Outcome& outcome) {
  const bool passed = outcome.passed();
  fmt::print("{}  {}\n", paint(passed ? Colour::green : Colour::red, passed ? "PASS" : "FAIL"),
             outcome.line);
  if (!outcome.refusal.empty()) {
    fmt::print("{}\n", outcome.refusal);
  } else if (!passed) {
    fmt::print("{}\n", to_string(outcome.report));
  }
}

Json json_of(const Outcome& outcome) {
  Json json = {{"problem", outcome.line}, {"passed", outcome.passed()}};
  if (!outcome.refusal.empty()) json["refused"] = outcome.refusal;
  if (!outcome.report.memory_violation.empty()) {
    json["memory_violation"] = outcome.report.memory_violation;
  }
  json["tensors"] = Json::array();
  for (const TensorCheck& tensor : outcome.report.tensors) {
    json["tensors"].push_back({{"tensor", tensor.tensor},
                               {"passed", tensor.passed()},
                               {"relative_error", tensor.relative_error},
                               {"allowed_relative_error", tensor.allowed_relative_error},
                               {"worst_error", tensor.worst_error},
                               {"allowed_worst_error", tensor.allowed_worst_error},
                               {"bad_elements", tensor.bad_elements},
                               {"first_bad", tensor.first_bad}});
  }
  return json;
}

int run(const Options& options) {
  const std::vector<NamedProblem> problems = read_problems(options.problems);
  const Execution execution = options.common.execution();
  std::size_t failed = 0;
  Json json = Json::array();
  for (std::size_t i = 0; i < problems.size(); ++i) {
    Outcome outcome;
    {
      Progress progress(fmt::format("checking {} of {}", i + 1, problems.size()),
                        static_cast<double>(problems.size()));
      progress.update(static_cast<double>(i));
      outcome = check_one(problems[i], execution);
    }
    if (!outcome.passed()) ++failed;
    if (options.common.json) {
      json.push_back(json_of(outcome));
    } else {
      print(outcome);
    }
  }
  if (options.common.json) {
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  } else if (problems.size() > 1) {
    fmt::print("{} passed, {} failed\n", problems.size() - failed, failed);
  }
  return failed == 0 ? kSuccess : kFailure;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "check", "Compare problems with the float64 reference; exit 0 when all agree, 1 when not");
  options->problems.add_to(*command);
  options->common.add_to(*command);
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tool
