// Small PTX kernels for tests: a header, a launch with vectors as buffers.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "ptxemu/device.hpp"

namespace ptxemu::testing {

/// Puts a body into `.entry test(.param .u64 out, .param .u64 in)` with common registers declared.
inline std::string kernel(const std::string& body, const std::string& before = {}) {
  return ".version 8.5\n.target sm_90a\n.address_size 64\n" + before +
         "\n.visible .entry test(.param .u64 out, .param .u64 in)\n{\n"
         ".reg .pred %p<16>;\n.reg .b16 %h<16>;\n.reg .b32 %r<64>;\n.reg .f32 %f<32>;\n.reg .b64 "
         "%rd<32>;\n"
         ".reg .f64 %fd<8>;\n"
         "ld.param.u64 %rd0, [out];\nld.param.u64 %rd1, [in];\nmov.u32 %r0, %tid.x;\n"
         "mul.wide.u32 %rd2, %r0, 4;\nadd.u64 %rd3, %rd0, %rd2;\nadd.u64 %rd4, %rd1, %rd2;\n" +
         body + "\nret;\n}\n";
}

struct Run {
  LaunchResult result;
  std::vector<std::uint32_t> out;
  [[nodiscard]] std::string reports() const {
    std::string text;
    for (const Report& report : result.reports) text += to_string(report) + "\n";
    return text;
  }
};

/// Runs `test` on `threads` threads; `out` and `in` are arrays of 32-bit words.
inline Run run(const std::string& ptx, std::vector<std::uint32_t> in = {},
               std::uint32_t threads = 32, std::size_t out_words = 0, DeviceOptions options = {},
               LaunchConfig config = {}) {
  Device device(options);
  const Module module = device.load(ptx, "test.ptx");
  if (out_words == 0) out_words = threads;
  const DevicePointer out = device.allocate(out_words * 4);
  const DevicePointer input = device.allocate(in.size() * 4);
  device.copy_to_device(input, in.data(), in.size() * 4);
  config.block = {threads, 1, 1};
  const std::vector<const void*> arguments{&out, &input};
  Run run;
  run.result = device.launch(module, "test", config, arguments);
  run.out.resize(out_words);
  device.copy_to_host(run.out.data(), out, out_words * 4);
  return run;
}

inline bool has(const LaunchResult& result, ReportKind kind) {
  for (const Report& report : result.reports) {
    if (report.kind == kind) return true;
  }
  return false;
}

}  // namespace ptxemu::testing
