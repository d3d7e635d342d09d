// What a device has, asked from its driver.
#include <fmt/format.h>

#include <array>

#include "device/driver_table.hpp"
#include "jfa/error.hpp"

namespace jfa {
namespace {

using device::DeviceAttribute;
using device::DriverDevice;

int attribute(const DriverDevice& of, DeviceAttribute which) {
  int value = 0;
  device::check(*of.driver, of.driver->device_attribute(&value, which, of.device),
                fmt::format("cannot read device attribute {}", static_cast<int>(which)));
  return value;
}

// From compute capability 9.0 on, code may use what only this architecture has: the suffix "a".
std::string architecture(const DriverDevice& of) {
  const int major = attribute(of, DeviceAttribute::compute_major);
  const int minor = attribute(of, DeviceAttribute::compute_minor);
  return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

std::string driver_name(const Device& device, const DriverDevice& of) {
  if (device.kind == DeviceKind::emulated) {
    return "PTX emulator";
  }
  int version = 0;
  device::check(*of.driver, of.driver->driver_version(&version), "cannot read the version");
  return fmt::format("CUDA driver {}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

DeviceInfo device_info(const Device& device) {
  const DriverDevice of = device::find_driver(device);
  DeviceInfo info;
  info.device = device;
  info.driver = driver_name(device, of);
  info.architecture = architecture(of);

  std::array<char, 256> name{};
  device::check(*of.driver,
                of.driver->device_name(name.data(), static_cast<int>(name.size()) - 1, of.device),
                "cannot read the device's name");
  info.name = name.data();
  std::size_t bytes = 0;
  device::check(*of.driver, of.driver->device_memory(&bytes, of.device),
                "cannot read the size of the memory");
  info.memory_bytes = static_cast<std::int64_t>(bytes);
  info.multiprocessors = attribute(of, DeviceAttribute::multiprocessors);
  info.l2_bytes = attribute(of, DeviceAttribute::l2_bytes);
  info.shared_bytes_per_block = attribute(of, DeviceAttribute::shared_bytes_per_block_optin);
  info.shared_bytes_per_multiprocessor =
      attribute(of, DeviceAttribute::shared_bytes_per_multiprocessor);
  info.registers_per_multiprocessor = attribute(of, DeviceAttribute::registers_per_multiprocessor);
  info.threads_per_multiprocessor = attribute(of, DeviceAttribute::threads_per_multiprocessor);
  info.core_clock_mhz = attribute(of, DeviceAttribute::core_clock_khz) / 1e3;
  // Two transfers a clock.
  info.memory_bytes_per_second = 2e3 * attribute(of, DeviceAttribute::memory_clock_khz) *
                                 attribute(of, DeviceAttribute::memory_bus_bits) / 8.0;
  return info;
}

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices;
  int gpus = 0;
  try {
    const device::DriverTable& driver = device::cuda_driver();
    device::check(driver, driver.device_count(&gpus), "cannot count the GPUs");
  } catch (const DeviceError&) {  // cuda_status() tells why
  }
  for (int i = 0; i < gpus; ++i) {
    devices.push_back(device_info({DeviceKind::cuda, i, {}}));
  }
  for (const std::string& name : device::emulated_architectures()) {
    devices.push_back(device_info({DeviceKind::emulated, 0, name}));
  }
  return devices;
}

std::string cuda_status() {
  try {
    const device::DriverTable& driver = device::cuda_driver();
    int version = 0;
    int count = 0;
    device::check(driver, driver.driver_version(&version), "cannot read the version");
    device::check(driver, driver.device_count(&count), "cannot count the GPUs");
    return fmt::format("CUDA driver {}.{}, {} GPU{}", version / 1000, version % 1000 / 10, count,
                       count == 1 ? "" : "s");
  } catch (const DeviceError& error) {
    return error.what();
  }
}

}  // namespace jfa
