// Fuzz entry: any bytes as a PTX text; what loads is also run, within budgets.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ptxemu/device.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ptxemu;
  DeviceOptions options;
  options.memory_limit_bytes = 1 << 22;
  options.instruction_budget = 20000;
  options.time_budget_seconds = 2;
  options.schedule = static_cast<Schedule>(size % 4);
  Device device(options);
  try {
    const Module module = device.load({reinterpret_cast<const char*>(data), size}, "fuzz.ptx");
    const DevicePointer memory = device.allocate(4096);
    for (const std::string& name : module.kernel_names()) {
      const KernelInfo& info = module.kernel(name);
      // Every parameter starts with the address of the same memory.
      std::vector<std::byte> parameters(info.parameter_bytes);
      for (const ParameterInfo& p : info.parameters) {
        for (std::uint32_t i = 0; i < p.bytes && i < 8; ++i)
          parameters[p.offset + i] = static_cast<std::byte>(memory >> (8 * i));
      }
      LaunchConfig config;
      config.grid = {2, 1, 1};
      config.block = info.required_block.value_or(Dim3{64, 1, 1});
      config.dynamic_shared_bytes = 4096;
      (void)device.launch_packed(module, name, config, parameters);
    }
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // Refused with a message: right.
  }
  return 0;
}
