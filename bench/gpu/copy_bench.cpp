// Bytes a second of a copy inside the device's memory: the ceiling of everything that is limited by
// memory.
//
//   copy_bench [device]     default: cuda:0
#include <fmt/format.h>

#include <algorithm>

#include "jfa/error.hpp"
#include "jfa/runtime.hpp"

namespace {

constexpr std::size_t kBytes = std::size_t{2} << 30;  // many times the L2 cache
constexpr int kRepeats = 20;

void run(const char* name) {
  namespace runtime = jfa::runtime;
  runtime::Context& context = runtime::open(jfa::parse_device(name));
  const jfa::DeviceInfo& info = context.info();
  const runtime::Buffer from(context, kBytes);
  const runtime::Buffer to(context, kBytes);
  context.fill(from.data(), 0x5A, kBytes);
  runtime::Event start(context);
  runtime::Event end(context);
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    start.record();
    context.copy(to.data(), from.data(), kBytes);
    end.record();
    end.synchronize();
    best = std::min(best, end.milliseconds_since(start));
  }
  fmt::print("{}, {}, {}, {} multiprocessors, core clock up to {:.0f} MHz\n", info.name,
             info.architecture, info.driver, info.multiprocessors, info.core_clock_mhz);
  fmt::print("copy {:.2f} TB/s read and written, {:.0f} % of the memory's {:.2f} TB/s\n",
             2.0 * kBytes / best / 1e9, 2e5 * kBytes / best / info.memory_bytes_per_second,
             info.memory_bytes_per_second / 1e12);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(count > 1 ? arguments[1] : "cuda:0");
  } catch (const jfa::Error& error) {
    fmt::print(stderr, "copy_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
