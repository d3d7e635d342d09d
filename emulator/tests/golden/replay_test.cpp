// Replays every golden case in the emulator and compares with what an H200 answered.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bundle_reader.hpp"
#include "ptxemu/device.hpp"

namespace ptxemu::golden {
namespace {

constexpr std::uint8_t kPoison = 0xcd;
constexpr std::uint64_t kInstructionBudget = 20'000'000;
constexpr int kFailuresShown = 25;

/// The value of one parameter, in memory.
struct Parameter {
  Bytes value;

  template <class Value>
  static Parameter of(const Value& value) {
    Parameter parameter{Bytes(sizeof value)};
    std::memcpy(parameter.value.data(), &value, sizeof value);
    return parameter;
  }
};

/// Global memory of one case, freed at its end.
class CaseMemory {
 public:
  CaseMemory(Device& device, const Case& golden) : device_(device) {
    for (const Argument& argument : golden.arguments) {
      const auto* buffer = std::get_if<BufferArgument>(&argument);
      addresses_.push_back(buffer != nullptr ? allocate(*buffer) : 0);
    }
  }
  ~CaseMemory() {
    for (const DevicePointer address : addresses_) device_.free(address);
  }
  CaseMemory(const CaseMemory&) = delete;
  CaseMemory& operator=(const CaseMemory&) = delete;

  [[nodiscard]] DevicePointer address(std::size_t argument) const { return addresses_[argument]; }

 private:
  DevicePointer allocate(const BufferArgument& buffer) {
    const std::uint64_t bytes = std::max<std::uint64_t>(buffer.bytes, buffer.initial.size());
    const DevicePointer address = device_.allocate(bytes);
    device_.fill(address, kPoison, bytes);
    device_.copy_to_device(address, buffer.initial.data(), buffer.initial.size());
    return address;
  }

  Device& device_;
  std::vector<DevicePointer> addresses_;
};

std::vector<Parameter> parameters_of(const Case& golden, const CaseMemory& memory) {
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < golden.arguments.size(); ++i) {
    if (std::holds_alternative<BufferArgument>(golden.arguments[i])) {
      parameters.push_back(Parameter::of(memory.address(i)));
    } else if (const auto* word = std::get_if<WordArgument>(&golden.arguments[i])) {
      parameters.push_back(word->bits == 64
                               ? Parameter::of(word->value)
                               : Parameter::of(static_cast<std::uint32_t>(word->value)));
    } else {
      const auto& argument = std::get<MapArgument>(golden.arguments[i]);
      tma::TensorMap map = argument.map;
      map.address = memory.address(argument.buffer);
      parameters.push_back(Parameter::of(tma::encode(map)));
    }
  }
  return parameters;
}

Bytes outputs_of(const Device& device, const Case& golden, const CaseMemory& memory) {
  Bytes output;
  for (std::size_t i = 0; i < golden.arguments.size(); ++i) {
    const auto* buffer = std::get_if<BufferArgument>(&golden.arguments[i]);
    if (buffer == nullptr || !buffer->output) continue;
    const std::size_t place = output.size();
    output.resize(place + buffer->bytes);
    device.copy_to_host(output.data() + place, memory.address(i), buffer->bytes);
  }
  return output;
}

/// Empty when the emulator does what the hardware did.
std::string replay(Device& device, const Case& golden) {
  try {
    const Module module = device.load(golden.ptx, golden.name);
    const CaseMemory memory(device, golden);
    const std::vector<Parameter> parameters = parameters_of(golden, memory);
    std::vector<const void*> pointers;
    for (const Parameter& parameter : parameters) pointers.push_back(parameter.value.data());
    const LaunchConfig config{.grid = {golden.grid, 1, 1},
                              .block = {golden.block, 1, 1},
                              .cluster = {golden.cluster, 1, 1},
                              .dynamic_shared_bytes = golden.shared_bytes};
    const LaunchResult result = device.launch(module, golden.kernel, config, pointers);
    if (!golden.fault.empty())
      return result.completed ? "completed, hardware: " + golden.fault : "";
    if (!result.clean()) {
      return result.reports.empty() ? "stopped without a report" : to_string(result.reports.back());
    }
    return difference(golden, outputs_of(device, golden, memory));
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Cases that are known not to be emulated, one "group: name" a line.
std::set<std::string> known_gaps() {
  std::ifstream file(PTXEMU_GOLDEN_GAPS);
  std::set<std::string> gaps;
  for (std::string line; std::getline(file, line);) gaps.insert(line);
  return gaps;
}

std::vector<std::string> groups() {
  std::istringstream names(PTXEMU_GOLDEN_GROUPS);
  std::vector<std::string> all;
  for (std::string name; std::getline(names, name, ',');) all.push_back(name);
  return all;
}

/// Groups whose results a schedule could change. Not mbarrier: there a spurious failure of try_wait
/// is an allowed answer.
bool is_asynchronous(const std::string& group) {
  static const std::set<std::string> kGroups = {"tensor_load",  "tensor_store", "bulk", "cluster",
                                                "async_arrive", "cp_async",     "wgmma"};
  return kGroups.contains(group);
}

void replay_group(const std::string& group, Schedule schedule, Checks checks = {}) {
  const std::set<std::string> gaps = known_gaps();
  DeviceOptions options;
  options.schedule = schedule;
  options.checks = checks;
  options.instruction_budget = kInstructionBudget;
  Device device(options);
  int failures = 0, replayed = 0;
  std::ostringstream text;
  for (const Case& golden : read_cases(PTXEMU_GOLDEN_BUNDLE, group)) {
    const std::string key = group + ": " + golden.name;
    const std::string problem = replay(device, golden);
    ++replayed;
    const bool gap = gaps.contains(key);
    if (problem.empty() != gap) continue;
    if (++failures <= kFailuresShown) {
      text << "  " << key << "\n      "
           << (gap ? "listed as a gap, but works: remove it from the list" : problem) << "\n";
    }
  }
  EXPECT_EQ(failures, 0) << failures << " of " << replayed << " cases differ from the hardware:\n"
                         << text.str();
  EXPECT_GT(replayed, 0);
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, EqualsTheHardware) {
  replay_group(GetParam(), Schedule::eager);
}

TEST_P(GoldenTest, EqualsTheHardwareUnderOtherSchedules) {
  if (!is_asynchronous(GetParam())) GTEST_SKIP() << "no asynchronous work in this group";
  for (const Schedule schedule : {Schedule::lazy, Schedule::reverse, Schedule::random})
    replay_group(GetParam(), schedule);
}

TEST_P(GoldenTest, IsCleanUnderAllCheckers) {
  replay_group(GetParam(), Schedule::eager, Checks::all());
}

INSTANTIATE_TEST_SUITE_P(Groups, GoldenTest, testing::ValuesIn(groups()),
                         [](const auto& information) { return information.param; });

}  // namespace
}  // namespace ptxemu::golden
