#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "jfa/device.hpp"
#include "jfa/error.hpp"

namespace jfa {
namespace {

[[noreturn]] void refuse(std::string_view text) {
  throw InvalidArgument(
      fmt::format("device: '{}' is not a device; use cpu, cuda, cuda:N (N = 0, 1, …) or "
                  "emulated:ARCHITECTURE (for example emulated:sm_90a)",
                  text));
}

bool is_architecture(std::string_view name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789_";
  return name.starts_with("sm_") && name.size() > 3 &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace

Device parse_device(std::string_view text) {
  if (text == "cpu") return {};
  if (text == "cuda") return {DeviceKind::cuda, 0, {}};
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) refuse(text);
  const std::string_view kind = text.substr(0, colon);
  const std::string_view rest = text.substr(colon + 1);
  if (kind == "cuda") {
    Device device{DeviceKind::cuda, 0, {}};
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), device.index);
    if (error != std::errc{} || end != rest.data() + rest.size() || device.index < 0) refuse(text);
    return device;
  }
  if (kind == "emulated" && is_architecture(rest)) {
    return {DeviceKind::emulated, 0, std::string(rest)};
  }
  refuse(text);
}

std::string to_string(const Device& device) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return fmt::format("cuda:{}", device.index);
    case DeviceKind::emulated:
      return fmt::format("emulated:{}", device.architecture);
  }
  return "unknown";
}

}  // namespace jfa
