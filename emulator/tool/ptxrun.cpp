// ptxrun: loads a PTX file, runs one kernel in the emulator, prints its findings, results and
// statistics.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "ptxemu/device.hpp"
#include "tool/arguments.hpp"

namespace {

using namespace ptxemu;

struct Command {
  std::string file, kernel, grid = "1", block = "32", cluster;
  std::uint32_t shared = 0;
  std::vector<std::string> arguments, prints, checks;
  bool list = false, statistics = false, coverage = false;
  DeviceOptions options;
};

void add_options(CLI::App& app, Command& c) {
  app.add_option("file", c.file, "PTX text");
  app.add_option("-k,--kernel", c.kernel, "kernel to run; default: the only one of the file");
  app.add_option("--grid", c.grid, "blocks: X[,Y[,Z]]")->capture_default_str();
  app.add_option("--block", c.block, "threads per block: X[,Y[,Z]]")->capture_default_str();
  app.add_option("--cluster", c.cluster, "blocks per cluster; default: what the kernel requires");
  app.add_option("--shared", c.shared, "bytes of dynamic shared memory");
  app.add_option("-a,--arg", c.arguments,
                 "argument, in order: u32:N s32:N u64:N s64:N f32:X f64:X "
                 "buffer:BYTES[:zero|nan|random|iota] file:PATH");
  app.add_option("-p,--print", c.prints,
                 "INDEX:TYPE[:COUNT]: print a buffer argument after the run");
  const std::map<std::string, Schedule> schedules{{"eager", Schedule::eager},
                                                  {"lazy", Schedule::lazy},
                                                  {"reverse", Schedule::reverse},
                                                  {"random", Schedule::random}};
  app.add_option("--schedule", c.options.schedule, "when asynchronous work executes")
      ->transform(CLI::CheckedTransformer(schedules, CLI::ignore_case));
  app.add_option("--seed", c.options.seed, "of the random schedule");
  app.add_option("--threads", c.options.threads,
                 "host threads for independent clusters, 0 = all cores");
  app.add_option("--check", c.checks, "checkers: all, races, uninitialised, protocol")
      ->delimiter(',')
      ->check(CLI::IsMember({"all", "races", "uninitialised", "protocol"}));
  app.add_option("--instructions", c.options.instruction_budget,
                 "stop after so many warp-instructions");
  app.add_option("--seconds", c.options.time_budget_seconds, "stop after so much wall time");
  app.add_flag("--list", c.list, "list the kernels of the file");
  app.add_flag("--stats", c.statistics,
               "print counts and the rate in warp-instructions per second");
  app.add_flag("--coverage", c.coverage, "print the table of supported instructions as Markdown");
}

void print_coverage() {
  std::string group;
  for (const CoverageRow& row : instruction_coverage()) {
    if (row.group != group) {
      group = row.group;
      std::cout << "\n### " << group << "\n\n| opcode | modifiers | remarks |\n|---|---|---|\n";
    }
    std::string modifiers;
    for (const char ch : row.modifiers)
      modifiers += ch == '|' ? std::string("\\|") : std::string(1, ch);
    std::cout << "| `" << row.opcode << "` | " << (modifiers.empty() ? "" : "`" + modifiers + "`")
              << " | " << row.note << " |\n";
  }
}

void print_list(const Module& module) {
  for (const std::string& name : module.kernel_names()) {
    const KernelInfo& info = module.kernel(name);
    std::cout << name << ": " << info.parameters.size() << " parameters in " << info.parameter_bytes
              << " bytes, " << info.static_shared_bytes << " bytes of static shared memory, "
              << info.local_bytes << " bytes of local memory per thread\n";
  }
}

void print_statistics(const Statistics& s) {
  std::printf(
      "%llu warp-instructions (%llu thread-instructions) in %.6f s: %.2f M warp-instructions/s\n"
      "%llu asynchronous operations, %.3f GFLOP in matrix instructions, %llu clusters\n",
      static_cast<unsigned long long>(s.warp_instructions),
      static_cast<unsigned long long>(s.thread_instructions), s.seconds,
      static_cast<double>(s.warp_instructions) / s.seconds * 1e-6,
      static_cast<unsigned long long>(s.async_operations),
      static_cast<double>(s.tensor_flops) * 1e-9, static_cast<unsigned long long>(s.clusters));
}

int run(Command& c) {
  if (c.coverage) {
    print_coverage();
    return 0;
  }
  if (c.file.empty()) throw Error(ErrorKind::invalid_argument, "no PTX file; see --help");
  std::ifstream file(c.file, std::ios::binary);
  if (!file) throw Error(ErrorKind::invalid_argument, "cannot read '" + c.file + "'");
  std::ostringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  for (const std::string& check : c.checks) {
    if (check == "all" || check == "races") c.options.checks.races = true;
    if (check == "all" || check == "uninitialised") c.options.checks.uninitialised = true;
    if (check == "all" || check == "protocol") c.options.checks.protocol = true;
  }
  c.options.print = [](std::string_view printed) { std::cout << printed; };
  Device device(c.options);
  const Module module = device.load(text, c.file);
  if (c.list) {
    print_list(module);
    return 0;
  }
  const std::vector<std::string> names = module.kernel_names();
  if (c.kernel.empty()) {
    if (names.size() != 1)
      throw Error(ErrorKind::invalid_argument,
                  "the file has " + std::to_string(names.size()) +
                      " kernels: choose one with --kernel (see --list)");
    c.kernel = names[0];
  }
  std::vector<tool::Argument> arguments;
  std::vector<const void*> pointers;
  const KernelInfo& info = module.kernel(c.kernel);
  for (const std::string& argument : c.arguments)
    arguments.push_back(tool::parse_argument(device, argument));
  for (std::size_t i = 0; i < arguments.size() && i < info.parameters.size(); ++i) {
    if (arguments[i].value.size() != info.parameters[i].bytes)
      throw Error(ErrorKind::invalid_argument, "argument " + std::to_string(i) + " has " +
                                                   std::to_string(arguments[i].value.size()) +
                                                   " bytes, parameter '" + info.parameters[i].name +
                                                   "' has " +
                                                   std::to_string(info.parameters[i].bytes));
  }
  for (const tool::Argument& argument : arguments) pointers.push_back(argument.value.data());
  LaunchConfig config;
  config.grid = tool::parse_dimensions(c.grid);
  config.block = tool::parse_dimensions(c.block);
  if (!c.cluster.empty()) config.cluster = tool::parse_dimensions(c.cluster);
  config.dynamic_shared_bytes = c.shared;
  const LaunchResult result = device.launch(module, c.kernel, config, pointers);
  for (const Report& report : result.reports) std::cerr << to_string(report) << "\n";
  for (const std::string& request : c.prints)
    std::cout << tool::print_buffer(device, arguments, request);
  if (c.statistics) print_statistics(result.statistics);
  return result.clean() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs a PTX kernel in the emulator. Exit status: 0 clean, 1 findings, 2 error.");
  Command command;
  add_options(app, command);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(command);
  } catch (const std::exception& error) {
    std::cerr << "ptxrun: " << error.what() << "\n";
    return 2;
  }
}
