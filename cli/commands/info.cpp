// jfa info: versions, the processor, devices, and how to get what is missing.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands/commands.hpp"
#include "jfa/device.hpp"
#include "jfa/error.hpp"
#include "jfa/jit.hpp"
#include "measure/machine.hpp"
#include "terminal/style.hpp"

namespace jfa::tool {
namespace {

using Json = nlohmann::ordered_json;

std::string nvrtc_status() {
  try {
    const jit::CompilerInfo compiler = jit::default_store().compiler();
    return fmt::format("{} at {}", compiler.name, compiler.path.string());
  } catch (const Error& error) {
    return error.what();
  }
}

// Further lines of the text are indented below the first.
void print_line(std::string_view label, std::string_view text) {
  constexpr std::size_t kWidth = 14;
  std::string indented;
  for (const char c : text) {
    indented += c;
    if (c == '\n') indented.append(kWidth + 1, ' ');
  }
  fmt::print("{} {}\n", paint(Colour::bold, pad_right(label, kWidth)), indented);
}

int run(bool as_json) {
  const std::string cpu = processor_name();
  const std::string cuda = cuda_status();
  const std::string nvrtc = nvrtc_status();
  const std::vector<DeviceInfo> devices = list_devices();
  if (as_json) {
    Json json = {{"version", JFA_VERSION},
                 {"compiler", JFA_COMPILER},
                 {"processor", cpu},
                 {"simd", simd_target()},
                 {"threads", available_threads()},
                 {"cuda", cuda},
                 {"nvrtc", nvrtc},
                 {"devices", Json::array({Json{{"device", "cpu"}, {"name", cpu}}})}};
    for (const DeviceInfo& device : devices) {
      json["devices"].push_back({{"device", to_string(device.device)},
                                 {"name", device.name},
                                 {"architecture", device.architecture},
                                 {"driver", device.driver},
                                 {"multiprocessors", device.multiprocessors},
                                 {"memory_bytes", device.memory_bytes}});
    }
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    return kSuccess;
  }
  print_line("jfa", fmt::format("{}, built with {}", JFA_VERSION, JFA_COMPILER));
  print_line("cpu",
             fmt::format("{}, {} threads, SIMD {}", cpu, available_threads(), simd_target()));
  print_line("CUDA", cuda);
  print_line("NVRTC", nvrtc);
  for (const DeviceInfo& device : devices) {
    print_line(
        to_string(device.device),
        fmt::format("{}, {}, {} multiprocessors, {}", device.name, device.architecture,
                    device.multiprocessors, show_bytes(static_cast<double>(device.memory_bytes))));
  }
  return kSuccess;
}

}  // namespace

void add_info(CLI::App& app, int& exit_code) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("info", "Versions, processor, devices, and what is missing");
  command->add_flag("--json", *as_json, "Print JSON");
  command->callback([as_json, &exit_code] { exit_code = run(*as_json); });
}

}  // namespace jfa::tool
