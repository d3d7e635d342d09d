// The device that tests of problems run on: JFA_FUZZ_DEVICE, else the PTX machine. With
// JFA_LIST_PROBLEMS=FILE nothing runs: the tests append their problems to the file, for `jfa
// bundle`.
#pragma once

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "device/available.hpp"
#include "jfa/attention.hpp"

namespace jfa::test {

inline std::string device_name() {
  const char* text = std::getenv("JFA_FUZZ_DEVICE");
  return text != nullptr ? text : "emulated:sm_90a";
}

// Why nothing can run there, or nothing. Bundled kernels need no compiler.
inline std::optional<std::string> why_no_device(runtime::Context*& context) {
  if (jit::default_store().settings().bundles.empty()) return why_skipped(device_name(), context);
  context = &runtime::open(parse_device(device_name()));
  return std::nullopt;
}

inline std::optional<std::string> why_no_device() {
  runtime::Context* context = nullptr;
  if (std::getenv("JFA_LIST_PROBLEMS") != nullptr) return std::nullopt;
  return why_no_device(context);
}

// Whether the problem was listed and is not to be run.
inline bool listed(const std::string& line) {
  const char* file = std::getenv("JFA_LIST_PROBLEMS");
  if (file != nullptr) std::ofstream(file, std::ios::app) << line << '\n';
  return file != nullptr;
}

inline Execution on_device() {
  Execution execution;
  execution.device = parse_device(device_name());
  return execution;
}

}  // namespace jfa::test
