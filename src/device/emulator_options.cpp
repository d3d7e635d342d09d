#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "device/emulated_gpu.hpp"
#include "jfa/error.hpp"

namespace jfa::device {
namespace {

using ptxemu::Checks;
using ptxemu::Schedule;

// Takes the text up to `separator` off the front.
std::string_view next_part(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

template <typename T>
T number(std::string_view name, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw InvalidArgument(
        fmt::format("emulator option {}: '{}' is no whole number from 0", name, text));
  }
  return value;
}

Schedule schedule(std::string_view text) {
  constexpr std::array kSchedules{
      std::pair{"eager", Schedule::eager}, std::pair{"lazy", Schedule::lazy},
      std::pair{"reverse", Schedule::reverse}, std::pair{"random", Schedule::random}};
  for (const auto& [name, value] : kSchedules) {
    if (text == name) {
      return value;
    }
  }
  throw InvalidArgument(
      fmt::format("emulator option schedule: '{}' is none of eager, lazy, reverse, random", text));
}

Checks checks(std::string_view text) {
  Checks checks;
  while (!text.empty()) {
    const std::string_view part = next_part(text, '+');
    if (part == "all") {
      checks = Checks::all();
    } else if (part == "races") {
      checks.races = true;
    } else if (part == "uninitialised") {
      checks.uninitialised = true;
    } else if (part == "protocol") {
      checks.protocol = true;
    } else if (part != "none") {
      throw InvalidArgument(fmt::format(
          "emulator option checks: '{}' is none of none, races, uninitialised, protocol, all",
          part));
    }
  }
  return checks;
}

}  // namespace

ptxemu::DeviceOptions parse_emulator_options(std::string_view text) {
  ptxemu::DeviceOptions options;
  while (!text.empty()) {
    std::string_view value = next_part(text, ',');
    const std::string_view name = next_part(value, '=');
    if (name == "schedule") {
      options.schedule = schedule(value);
    } else if (name == "seed") {
      options.seed = number<std::uint64_t>(name, value);
    } else if (name == "checks") {
      options.checks = checks(value);
    } else if (name == "threads") {
      options.threads = number<std::uint32_t>(name, value);
    } else if (name == "multiprocessors") {
      options.multiprocessors = std::max(number<std::uint32_t>(name, value), 1U);
    } else if (name == "budget") {
      options.instruction_budget = number<std::uint64_t>(name, value);
    } else {
      throw InvalidArgument(fmt::format(
          "emulator option '{}' does not exist; there are schedule, seed, checks, threads, "
          "multiprocessors and budget, as in schedule=random,seed=3,checks=all",
          name));
    }
  }
  return options;
}

}  // namespace jfa::device
