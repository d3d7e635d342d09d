// NVRTC, NVIDIA's run-time compiler, loaded with dlopen.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "jfa/jit.hpp"

namespace jfa::jit {

// Where libnvrtc is, found without loading it (loading takes 10-50 ms, a cached kernel needs none).
struct NvrtcLocation {
  std::filesystem::path library;  // empty: not found
  std::string identity;           // "13.0-103859528": version and size of the library
  std::vector<std::filesystem::path> searched;
};

// `wanted` is a file or a directory, and then the only place that is looked at. Empty: the places
// that docs/jit.md lists, in its order.
NvrtcLocation find_nvrtc(const std::filesystem::path& wanted);

// What to tell a user who has no compiler.
std::string missing_nvrtc_message(const NvrtcLocation& location);

class Nvrtc {
 public:
  // Throws DeviceError when the library cannot be loaded.
  explicit Nvrtc(const NvrtcLocation& location);
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  const CompilerInfo& info() const { return info_; }

  // Throws DeviceError with the compiler's log, Unsupported for an architecture it does not know.
  CompiledKernel compile(const KernelRequest& request, const SourceTree& tree) const;

 private:
  struct Functions;
  class Program;

  void check_architecture(const KernelRequest& request) const;

  std::unique_ptr<Functions> functions_;
  CompilerInfo info_;
  bool caches_itself_ = false;
};

// The options every kernel is compiled with, the request's own at the end. Part of the cache key.
std::vector<std::string> compiler_options(const KernelRequest& request);

// The text the compiler sees as the main file.
std::string translation_unit(const KernelRequest& request, const SourceTree& tree);

}  // namespace jfa::jit
