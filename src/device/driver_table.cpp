#include "device/driver_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "jfa/error.hpp"

namespace jfa::device {

DriverDevice find_driver(const Device& device) {
  switch (device.kind) {
    case DeviceKind::cpu:
      break;
    case DeviceKind::cuda: {
      const DriverTable& driver = cuda_driver();
      int count = 0;
      check(driver, driver.device_count(&count), "cannot count the GPUs");
      if (device.index >= count) {
        throw DeviceError(
            fmt::format("device {} does not exist: the CUDA driver shows {} GPU{} "
                        "(CUDA_VISIBLE_DEVICES may hide others)",
                        to_string(device), count, count == 1 ? "" : "s"));
      }
      DriverDevice found{&driver, 0};
      check(driver, driver.device_get(&found.device, device.index), to_string(device));
      return found;
    }
    case DeviceKind::emulated: {
      const DriverTable& driver = emulated_driver();
      const std::vector<std::string> known = emulated_architectures();
      const auto found = std::ranges::find(known, device.architecture);
      if (found == known.end()) {
        throw Unsupported(fmt::format("device {}: the PTX emulator knows the architectures {}",
                                      to_string(device), fmt::join(known, ", ")));
      }
      return {&driver, static_cast<int>(found - known.begin())};
    }
  }
  throw Unsupported("device cpu runs no kernels; use cuda:N or emulated:sm_90a");
}

void fail(const DriverTable& driver, Status status, std::string_view what) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver.error_name(status, &name);
  driver.error_string(status, &text);
  const char* detail = driver.error_detail();
  throw DeviceError(fmt::format("{}: {} ({}): {}{}{}", what, name != nullptr ? name : "unknown",
                                status, text != nullptr ? text : "no description",
                                detail != nullptr ? "\n" : "", detail != nullptr ? detail : ""));
}

void check(const DriverTable& driver, Status status, std::string_view what) {
  if (status != kSuccess) {
    fail(driver, status, what);
  }
}

}  // namespace jfa::device
