// What a Context owns, for the files that implement the runtime.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "device/driver_table.hpp"
#include "jfa/runtime.hpp"

namespace jfa::runtime {

struct Context::State {
  const device::DriverTable* driver = nullptr;
  device::Handle context = nullptr;
  DeviceInfo info;

  std::mutex kernels_mutex;
  std::unordered_map<std::string, Kernel> kernels;  // by source, entry, options and snippet
};

// Makes a context current in this thread for as long as it lives: the caller may work on another.
class CurrentContext {
 public:
  CurrentContext(const device::DriverTable& driver, device::Handle context) : driver_(driver) {
    driver_.context_get_current(&previous_);
    if (previous_ != context) {
      device::check(driver_, driver_.context_set_current(context), "cannot switch to the device");
      switched_ = true;
    }
  }
  ~CurrentContext() {
    if (switched_) {
      driver_.context_set_current(previous_);
    }
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const device::DriverTable& driver_;
  device::Handle previous_ = nullptr;
  bool switched_ = false;
};

// Loads the image on the context's device, which is current.
Kernel load_kernel(Context::State& context, std::shared_ptr<const jit::CompiledKernel> compiled);

}  // namespace jfa::runtime
