// How long a kernel takes to compile and to load from the disk cache. Needs no GPU.
//
//   jit_bench [source entry [option…]]     default: the Hopper forward kernel, bf16, head dim 128
//
// Goals for one attention kernel on one core: cold ≤ 3000 ms, of which the front end (source to
// PTX) ≤ 1000 ms; from the disk cache ≤ 2 ms.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "jfa/error.hpp"
#include "jfa/jit.hpp"
#include "measure.hpp"

namespace {

namespace fs = std::filesystem;
using jfa::bench::Milliseconds;
using jfa::bench::time_median;
using jfa::bench::time_once;
using jfa::jit::ImageKind;
using jfa::jit::KernelRequest;
using jfa::jit::KernelStore;
using jfa::jit::Settings;

constexpr const char* kForward =
    "jfa::kernels::sm90::forward<jfa::kernels::sm90::ForwardConfig<jfa::tlx::bf16, 128, 128, "
    "jfa::kernels::Activation::softmax, jfa::kernels::MaskParameters::full, 1, false, false>>";

KernelRequest request_of(int count, char** arguments) {
  KernelRequest request{.source = "attention/sm90/forward.cu",
                        .entry = kForward,
                        .architecture = "sm_90a",
                        .kind = ImageKind::cubin,
                        .options = {},
                        .snippet = {}};
  if (count > 2) {
    request.source = arguments[1];
    request.entry = arguments[2];
    request.options.assign(arguments + 3, arguments + count);
  }
  return request;
}

void print(const char* what, const Milliseconds& time) {
  fmt::print("{:<36}{:>10.3f} ms{:>10.3f} ms\n", what, time.wall, time.processor);
}

void run(const KernelRequest& cubin) {
  KernelRequest ptx = cubin;
  ptx.kind = ImageKind::ptx;

  Settings settings = jfa::jit::settings_from_environment();
  settings.cache_directory =
      fs::temp_directory_path() / fmt::format("jfa-jit-bench-{}", std::random_device{}());
  settings.bundles.clear();

  KernelStore compiler(settings);
  fmt::print("{}\n", to_string(cubin));
  fmt::print("{:<36}{:>13}{:>13}\n", "", "wall", "processor");
  print("load the compiler", time_once([&] { compiler.compiler(); }));
  const Milliseconds first = time_once([&] { compiler.get(cubin); });
  print("first compilation, stored on disk", first);
  print("source to PTX (front end)", time_median(3, [&] { compiler.compile(ptx); }));
  print("source to cubin", time_median(3, [&] { compiler.compile(cubin); }));
  print("from the disk cache, new store",
        time_median(21, [&] { KernelStore(settings).get(cubin); }));
  print("from memory", time_median(1001, [&] { compiler.get(cubin); }));

  const jfa::jit::CompiledKernel kernel = compiler.compile(cubin);
  const jfa::jit::KernelResources& used = kernel.resources.value();
  fmt::print(
      "{}: {} registers, {} bytes spilled, {} bytes of static shared memory, cubin {} KiB, PTX {} "
      "KiB\n",
      kernel.compiler, used.registers, used.spill_store_bytes + used.spill_load_bytes,
      used.static_shared_bytes, kernel.image.size() / 1024,
      compiler.compile(ptx).image.size() / 1024);
  for (const std::string& remark : kernel.remarks) {
    fmt::print("{}\n", remark);
  }
  fs::remove_all(settings.cache_directory);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(request_of(count, arguments));
  } catch (const jfa::Error& error) {
    fmt::print(stderr, "jit_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
