// Stands for the PTX emulator in a build without it.
#include "device/driver_table.hpp"
#include "jfa/error.hpp"

namespace jfa::device {

const DriverTable& emulated_driver() {
  throw DeviceError(
      "this build has no PTX emulator; configure it with -DJFA_BUILD_EMULATOR=ON, or use cuda:N");
}

std::vector<std::string> emulated_architectures() {
  return {};
}

}  // namespace jfa::device
