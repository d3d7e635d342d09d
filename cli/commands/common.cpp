#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "commands/commands.hpp"
#include "jfa/error.hpp"
#include "terminal/progress.hpp"

namespace jfa::tool {
namespace {

// A validator of CLI11 gives an empty text for a good value.
template <typename Number>
CLI::Validator numbers(Number least, Number most, std::string description) {
  auto check = [least, most, description](const std::string& text) -> std::string {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (whole && value >= least && value <= most) return "";  // NaN is neither
    return fmt::format("'{}' is not allowed; give {}", text, description);
  };
  return {std::move(check), ""};
}

}  // namespace

CLI::Validator whole_number(std::int64_t least) {
  return numbers(least, std::numeric_limits<std::int64_t>::max(),
                 fmt::format("a whole number from {} on", least));
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return numbers(least, most, fmt::format("a whole number from {} to {}", least, most));
}

CLI::Validator seed_number() {
  return numbers(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(),
                 "a whole number from 0 to 2^64 − 1");
}

CLI::Validator number(double least, double most) {
  return numbers(least, most, fmt::format("a number from {} to {}", least, most));
}

void CommonOptions::add_to(CLI::App& command) {
  command.add_option("--device", device, "cpu, cuda, cuda:N or emulated:ARCH")
      ->capture_default_str();
  constexpr int kMostThreads = 1024;  // the machine's peak is measured on real threads
  command.add_option("--threads", threads, "CPU threads; 0: all cores")
      ->capture_default_str()
      ->check(whole_number(0, kMostThreads));
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
