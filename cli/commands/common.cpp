#include "commands/commands.hpp"
#include "jfa/error.hpp"
#include "terminal/progress.hpp"

namespace jfa::tool {

void CommonOptions::add_to(CLI::App& command) {
  command.add_option("--device", device, "cpu, cuda, cuda:N or emulated:ARCH")
      ->capture_default_str();
  constexpr int kMostThreads = 1024;  // the machine's peak is measured on real threads
  command.add_option("--threads", threads, "CPU threads; 0: all cores")
      ->capture_default_str()
      ->check(CLI::Range(0, kMostThreads));
  command.add_flag("--json", json, "Print JSON");
}

Execution CommonOptions::execution() const {
  Execution execution;
  try {
    execution.device = parse_device(device);
  } catch (const InvalidArgument& error) {
    throw UsageError(std::string("--device: ") + error.what());
  }
  execution.threads = threads;
  return execution;
}

MachinePeak measure_peak(int threads) {
  const Progress progress("measuring this machine", 0);
  return measure_machine_peak(threads);
}

}  // namespace jfa::tool
