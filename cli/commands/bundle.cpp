// jfa bundle: compiled kernels in one directory, for machines without a compiler.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "commands/commands.hpp"
#include "commands/problem_list.hpp"
#include "jfa/jfa.hpp"
#include "jfa/jit.hpp"
#include "terminal/style.hpp"

namespace jfa::tool {
namespace {

struct Options {
  std::string directory;
  bool from_cache = false;
  std::string list;
  ProblemOptions problems;
  std::vector<std::string> architectures{"sm_90a"};
  bool ptx = false;
};

jit::ImageKind kind_of(const Options& options) {
  return options.ptx ? jit::ImageKind::ptx : jit::ImageKind::cubin;
}

void add_new(const jit::KernelRequest& request, std::vector<jit::KernelRequest>& requests) {
  if (std::ranges::find(requests, request) == requests.end()) requests.push_back(request);
}

// Every kernel that the problems need.
void read_problem_kernels(const Options& options, std::vector<jit::KernelRequest>& requests) {
  if (options.problems.lines.empty() && options.problems.files.empty()) return;
  for (const NamedProblem& named : read_problems(options.problems)) {
    const ProblemInstance instance(named.problem);
    for (const std::string& architecture : options.architectures) {
      for (const jit::KernelRequest& request :
           kernel_requests(instance.forward(), architecture, kind_of(options))) {
        add_new(request, requests);
      }
    }
  }
}

// "SOURCE ENTRY" a line; the entry may contain blanks. Empty lines and lines from # on are skipped.
void read_list(std::istream& lines, const Options& options,
               std::vector<jit::KernelRequest>& requests) {
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t start = line.find_first_not_of(" \t\r");
    if (start == std::string::npos || line[start] == '#') {
      continue;
    }
    const std::size_t blank = line.find_first_of(" \t", start);
    const std::size_t entry = line.find_first_not_of(" \t", blank);
    if (entry == std::string::npos) {
      throw UsageError(
          fmt::format("{}:{}: expected SOURCE ENTRY, for example "
                      "examples/vector_add.cu jfa::examples::vector_add",
                      options.list, number));
    }
    for (const std::string& architecture : options.architectures) {
      requests.push_back({.source = line.substr(start, blank - start),
                          .entry = line.substr(entry, line.find_last_not_of(" \t\r") - entry + 1),
                          .architecture = architecture,
                          .kind = kind_of(options),
                          .options = {},
                          .snippet = {}});
    }
  }
}

std::vector<jit::KernelRequest> requests_of(const Options& options) {
  std::vector<jit::KernelRequest> requests;
  if (options.from_cache) {
    requests = jit::default_store().cached_requests();
  }
  if (options.list == "-") {
    read_list(std::cin, options, requests);
  } else if (!options.list.empty()) {
    std::ifstream file(options.list);
    if (!file) {
      throw UsageError(fmt::format("cannot read '{}'", options.list));
    }
    read_list(file, options, requests);
  }
  read_problem_kernels(options, requests);
  if (requests.empty()) {
    throw UsageError(
        "no kernels to bundle: give problems, --file FILE with one a line or --kernels FILE, or "
        "run "
        "the workload once and use --from-cache");
  }
  return requests;
}

int run(const Options& options) {
  const std::vector<jit::KernelRequest> requests = requests_of(options);
  const auto files = jit::default_store().write_bundle(requests, options.directory);
  for (const jit::KernelRequest& request : requests) {
    fmt::print("{}\n", to_string(request));
  }
  fmt::print("{} kernels in {}; use them with JFA_BUNDLE={}\n", files.size(), options.directory,
             options.directory);
  return kSuccess;
}

}  // namespace

void add_bundle(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "bundle", "Compile kernels into a directory that works without a compiler (JFA_BUNDLE)");
  command->add_option("directory", options->directory, "Where to write; added to if it exists")
      ->required();
  options->problems.add_to(*command);
  command->add_flag("--from-cache", options->from_cache,
                    "Everything that a workload has compiled on this machine");
  command->add_option("--kernels", options->list,
                      "File with SOURCE ENTRY a line; - reads standard input");
  command->add_option("--architecture", options->architectures,
                      "What to compile for: sm_90a; may be given more than once");
  command->add_flag("--ptx", options->ptx, "Compile to PTX, for the emulator");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tool
