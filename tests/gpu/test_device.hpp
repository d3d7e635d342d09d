// The device that tests of problems run on: JFA_FUZZ_DEVICE, else the PTX machine.
#pragma once

#include <cstdlib>
#include <string>

#include "device/available.hpp"
#include "jfa/attention.hpp"

namespace jfa::test {

inline std::string device_name() {
  const char* text = std::getenv("JFA_FUZZ_DEVICE");
  return text != nullptr ? text : "emulated:sm_90a";
}

// Why nothing can run there, or nothing.
inline std::optional<std::string> why_no_device() {
  runtime::Context* context = nullptr;
  return why_skipped(device_name(), context);
}

inline Execution on_device() {
  Execution execution;
  execution.device = parse_device(device_name());
  return execution;
}

}  // namespace jfa::test
