// Opening a device for a test: what a machine need not have is a reason to skip, what CI must have
// is not.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "jfa/error.hpp"
#include "jfa/runtime.hpp"

namespace jfa::test {

// Opens `name` into `context` and looks for the compiler. Returns why the test cannot run here: no
// GPU anywhere, or no compiler off CI. Without NVRTC on CI, or without the PTX machine, the error
// is thrown: the test fails.
inline std::optional<std::string> why_skipped(std::string_view name, runtime::Context*& context) {
  const Device device = parse_device(name);
  const bool required = device.kind == DeviceKind::emulated && std::getenv("CI") != nullptr;
  try {
    context = &runtime::open(device);
    jit::default_store().compiler();
  } catch (const Error& error) {
    if (required) throw;
    return error.what();
  }
  return std::nullopt;
}

}  // namespace jfa::test
