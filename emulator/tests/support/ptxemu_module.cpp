// Python module `ptxemu` for the tests: the public C++ interface, a tensor-map encoder, nothing
// else.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "ptxemu/device.hpp"
#include "tma/tensor_map.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using ptxemu::Device;
using ptxemu::Dim3;
using Triple = std::array<std::uint32_t, 3>;

Dim3 to_dim3(const Triple& values) {
  return {values[0], values[1], values[2]};
}

ptxemu::Schedule parse_schedule(const std::string& name) {
  if (name == "eager") return ptxemu::Schedule::eager;
  if (name == "lazy") return ptxemu::Schedule::lazy;
  if (name == "reverse") return ptxemu::Schedule::reverse;
  if (name == "random") return ptxemu::Schedule::random;
  throw std::invalid_argument("schedule is '" + name + "'; allowed: eager, lazy, reverse, random");
}

struct Settings {
  std::string schedule = "eager";
  std::uint64_t seed = 1;
  bool races = true, uninitialised = true, protocol = true;
  std::string elect_lane = "lowest";
  std::uint32_t shared_base = 1024;
  std::uint64_t instruction_budget = 0;
  double time_budget_seconds = 0;
  std::uint32_t threads = 1;
};

ptxemu::DeviceOptions to_options(const Settings& settings) {
  ptxemu::DeviceOptions options;
  options.schedule = parse_schedule(settings.schedule);
  options.seed = settings.seed;
  options.checks = {settings.races, settings.uninitialised, settings.protocol};
  options.elect_lane =
      settings.elect_lane == "highest" ? ptxemu::ElectLane::highest : ptxemu::ElectLane::lowest;
  options.shared_base = settings.shared_base;
  options.instruction_budget = settings.instruction_budget;
  options.time_budget_seconds = settings.time_budget_seconds;
  options.threads = settings.threads;
  return options;
}

nb::bytes encode_tensor_map(int type, std::uint64_t address, const std::vector<std::uint64_t>& size,
                            const std::vector<std::uint64_t>& stride,
                            const std::vector<std::uint32_t>& box, int swizzle, bool nan_fill) {
  ptxemu::tma::TensorMap map;
  const std::size_t rank = size.size();
  if (rank == 0 || rank > ptxemu::tma::kMaxRank || stride.size() != rank || box.size() != rank) {
    throw std::invalid_argument("size, stride and box need 1 to 5 entries each, equally many");
  }
  map.type = static_cast<ptxemu::tma::DataType>(type);
  map.rank = static_cast<unsigned>(rank);
  map.address = address;
  for (std::size_t i = 0; i < rank; ++i) {
    map.size[i] = size[i];
    map.stride[i] = stride[i];
    map.box[i] = box[i];
    map.element_stride[i] = 1;
  }
  map.swizzle = static_cast<ptxemu::tma::Swizzle>(swizzle);
  map.fill = nan_fill ? ptxemu::tma::OutOfBoundsFill::nan : ptxemu::tma::OutOfBoundsFill::zero;
  const ptxemu::tma::TensorMapBits bits = ptxemu::tma::encode(map);
  return nb::bytes(bits.data(), sizeof bits);
}

}  // namespace

NB_MODULE(ptxemu, module) {
  module.doc() = "PTX emulator: a device with global memory that loads PTX text and runs kernels.";

  nb::exception<ptxemu::Error>(module, "Error");

  nb::class_<ptxemu::Report>(module, "Report")
      .def_prop_ro("kind", [](const ptxemu::Report& r) { return std::string(to_string(r.kind)); })
      .def_ro("message", &ptxemu::Report::message)
      .def_prop_ro("source_line", [](const ptxemu::Report& r) { return r.where.source_line; })
      .def_prop_ro("ptx_line", [](const ptxemu::Report& r) { return r.where.ptx_line; })
      .def_ro("count", &ptxemu::Report::count)
      .def("__str__", [](const ptxemu::Report& r) { return to_string(r); });

  nb::class_<ptxemu::Statistics>(module, "Statistics")
      .def_ro("warp_instructions", &ptxemu::Statistics::warp_instructions)
      .def_ro("async_operations", &ptxemu::Statistics::async_operations)
      .def_ro("tensor_flops", &ptxemu::Statistics::tensor_flops)
      .def_ro("seconds", &ptxemu::Statistics::seconds);

  nb::class_<ptxemu::LaunchResult>(module, "LaunchResult")
      .def_ro("completed", &ptxemu::LaunchResult::completed)
      .def_ro("reports", &ptxemu::LaunchResult::reports)
      .def_ro("statistics", &ptxemu::LaunchResult::statistics)
      .def_ro("printed", &ptxemu::LaunchResult::printed)
      .def_prop_ro("clean", &ptxemu::LaunchResult::clean);

  nb::class_<ptxemu::ParameterInfo>(module, "Parameter")
      .def_ro("name", &ptxemu::ParameterInfo::name)
      .def_ro("bytes", &ptxemu::ParameterInfo::bytes)
      .def_ro("offset", &ptxemu::ParameterInfo::offset);

  nb::class_<ptxemu::Module>(module, "Module")
      .def("kernel_names", &ptxemu::Module::kernel_names)
      .def("parameters", [](const ptxemu::Module& self,
                            const std::string& kernel) { return self.kernel(kernel).parameters; })
      .def("parameter_bytes", [](const ptxemu::Module& self, const std::string& kernel) {
        return self.kernel(kernel).parameter_bytes;
      });

  nb::class_<Settings>(module, "Settings")
      .def(nb::init<>())
      .def_rw("schedule", &Settings::schedule)
      .def_rw("seed", &Settings::seed)
      .def_rw("races", &Settings::races)
      .def_rw("uninitialised", &Settings::uninitialised)
      .def_rw("protocol", &Settings::protocol)
      .def_rw("elect_lane", &Settings::elect_lane)
      .def_rw("shared_base", &Settings::shared_base)
      .def_rw("instruction_budget", &Settings::instruction_budget)
      .def_rw("time_budget_seconds", &Settings::time_budget_seconds)
      .def_rw("threads", &Settings::threads);

  nb::class_<Device>(module, "Device")
      .def("__init__",
           [](Device* self, const Settings& settings) { new (self) Device(to_options(settings)); })
      .def("allocate", &Device::allocate, "bytes"_a)
      .def("free", &Device::free, "address"_a)
      .def("write",
           [](Device& self, std::uint64_t address, const nb::bytes& data) {
             self.copy_to_device(address, data.c_str(), data.size());
           })
      .def("read",
           [](const Device& self, std::uint64_t address, std::uint64_t bytes) {
             std::string data(bytes, '\0');
             self.copy_to_host(data.data(), address, bytes);
             return nb::bytes(data.data(), data.size());
           })
      .def("load", [](Device& self, const std::string& ptx,
                      const std::string& name) { return self.load(ptx, name); })
      .def("launch", [](Device& self, const ptxemu::Module& kernels, const std::string& kernel,
                        const Triple& grid, const Triple& block, const Triple& cluster,
                        std::uint32_t dynamic_shared_bytes, const nb::bytes& parameters) {
        const ptxemu::LaunchConfig config{to_dim3(grid), to_dim3(block), to_dim3(cluster),
                                          dynamic_shared_bytes};
        const std::span<const std::byte> packed(
            reinterpret_cast<const std::byte*>(parameters.c_str()), parameters.size());
        return self.launch_packed(kernels, kernel, config, packed);
      });

  module.def("encode_tensor_map", &encode_tensor_map, "type"_a, "address"_a, "size"_a, "stride"_a,
             "box"_a, "swizzle"_a, "nan_fill"_a = false);
}
