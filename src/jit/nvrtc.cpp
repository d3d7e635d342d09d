#include "jit/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "jfa/error.hpp"
#include "jit/ptxas_log.hpp"
#include "jit/source_tree.hpp"

namespace jfa::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRoot = "kernels/";  // how messages and line tables name the tree

// After this line the compiler takes the next line for line 1 of `file`, in errors and line tables.
std::string line_marker(std::string_view file) {
  return fmt::format("#line 1 \"{}\"\n", file);
}

// "sm_90a" → "90a". Throws InvalidArgument for anything else.
std::string_view compute_capability(const KernelRequest& request) {
  const std::string_view architecture = request.architecture;
  if (!architecture.starts_with("sm_") || architecture.size() < 5) {
    throw InvalidArgument(fmt::format(
        "architecture '{}' of kernel {} is malformed; expected sm_90, sm_90a, sm_100a, …",
        request.architecture, request.entry));
  }
  return architecture.substr(3);
}

// The compiler puts the working directory in front of our relative file names; line tables of the
// same code must be the same wherever it is compiled.
std::string without_working_directory(std::string ptx) {
  std::error_code error;
  const std::string prefix = fmt::format("\"{}/", fs::current_path(error).string());
  for (std::size_t at = ptx.find(prefix); at != std::string::npos; at = ptx.find(prefix, at + 1)) {
    ptx.erase(at + 1, prefix.size() - 1);
  }
  return ptx;
}

}  // namespace

// The C interface of NVRTC, as its documentation declares it. 0 is success.
struct Nvrtc::Functions {
  using Handle = void*;

  void* library = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*version)(int*, int*) = nullptr;
  int (*architecture_count)(int*) = nullptr;
  int (*architectures)(int*) = nullptr;
  int (*create)(Handle*, const char*, const char*, int, const char* const*,
                const char* const*) = nullptr;
  int (*destroy)(Handle*) = nullptr;
  int (*compile)(Handle, int, const char* const*) = nullptr;
  int (*add_name)(Handle, const char*) = nullptr;
  int (*lowered_name)(Handle, const char*, const char**) = nullptr;
  int (*log_size)(Handle, std::size_t*) = nullptr;
  int (*log)(Handle, char*) = nullptr;
  int (*ptx_size)(Handle, std::size_t*) = nullptr;
  int (*ptx)(Handle, char*) = nullptr;
  int (*cubin_size)(Handle, std::size_t*) = nullptr;
  int (*cubin)(Handle, char*) = nullptr;

  void check(int status, std::string_view what) const {
    if (status != 0) {
      throw DeviceError(fmt::format("NVRTC: {}: {}", what, error_string(status)));
    }
  }
};

class Nvrtc::Program {
 public:
  Program(const Functions& functions, const std::string& text, const std::string& name,
          const std::vector<const char*>& names, const std::vector<const char*>& contents)
      : functions_(functions) {
    functions_.check(
        functions_.create(&handle_, text.c_str(), name.c_str(), static_cast<int>(names.size()),
                          contents.data(), names.data()),
        "cannot create a program");
  }
  ~Program() { functions_.destroy(&handle_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void add_name(const std::string& name) {
    functions_.check(functions_.add_name(handle_, name.c_str()), "cannot name the kernel");
  }

  int compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    pointers.reserve(options.size());
    for (const std::string& option : options) {
      pointers.push_back(option.c_str());
    }
    return functions_.compile(handle_, static_cast<int>(pointers.size()), pointers.data());
  }

  std::string lowered_name(const std::string& name) const {
    const char* lowered = nullptr;
    functions_.check(functions_.lowered_name(handle_, name.c_str(), &lowered),
                     fmt::format("'{}' is no kernel of the source", name));
    return lowered;
  }

  std::string log() const { return text(functions_.log_size, functions_.log, "no log"); }
  std::string ptx() const { return text(functions_.ptx_size, functions_.ptx, "no PTX"); }
  std::string cubin() const {
    return bytes(functions_.cubin_size, functions_.cubin, "no machine code");
  }

 private:
  using Size = int (*)(Functions::Handle, std::size_t*);
  using Get = int (*)(Functions::Handle, char*);

  std::string bytes(Size size, Get get, std::string_view failure) const {
    std::size_t count = 0;
    functions_.check(size(handle_, &count), failure);
    std::string result(count, '\0');
    functions_.check(get(handle_, result.data()), failure);
    return result;
  }

  std::string text(Size size, Get get, std::string_view failure) const {
    std::string result = bytes(size, get, failure);
    result.erase(std::min(result.find('\0'), result.size()));  // sizes count the closing zero
    return result;
  }

  const Functions& functions_;
  Functions::Handle handle_ = nullptr;
};

Nvrtc::Nvrtc(const NvrtcLocation& location) : functions_(std::make_unique<Functions>()) {
  if (location.library.empty()) {
    throw DeviceError(missing_nvrtc_message(location));
  }
  // NVRTC opens its built-in functions by name, which only finds them when they are loaded or on
  // the loader's path; in a wheel they just lie beside it.
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(location.library.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("libnvrtc-builtins.so.")) {
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
  // Never closed: NVRTC keeps thread-local state whose destructors must stay mapped.
  functions_->library = dlopen(location.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (functions_->library == nullptr) {
    const char* reason = dlerror();
    throw DeviceError(fmt::format("cannot load the CUDA run-time compiler '{}': {}",
                                  location.library.string(), reason != nullptr ? reason : ""));
  }
  const auto load = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        dlsym(functions_->library, symbol));
    if (function == nullptr) {
      throw DeviceError(fmt::format("'{}' has no {}; NVRTC 12.0 or newer is needed",
                                    location.library.string(), symbol));
    }
  };
  load(functions_->error_string, "nvrtcGetErrorString");
  load(functions_->version, "nvrtcVersion");
  load(functions_->architecture_count, "nvrtcGetNumSupportedArchs");
  load(functions_->architectures, "nvrtcGetSupportedArchs");
  load(functions_->create, "nvrtcCreateProgram");
  load(functions_->destroy, "nvrtcDestroyProgram");
  load(functions_->compile, "nvrtcCompileProgram");
  load(functions_->add_name, "nvrtcAddNameExpression");
  load(functions_->lowered_name, "nvrtcGetLoweredName");
  load(functions_->log_size, "nvrtcGetProgramLogSize");
  load(functions_->log, "nvrtcGetProgramLog");
  load(functions_->ptx_size, "nvrtcGetPTXSize");
  load(functions_->ptx, "nvrtcGetPTX");
  load(functions_->cubin_size, "nvrtcGetCUBINSize");
  load(functions_->cubin, "nvrtcGetCUBIN");

  int major = 0;
  int minor = 0;
  functions_->check(functions_->version(&major, &minor), "no version");
  int count = 0;
  functions_->check(functions_->architecture_count(&count), "no list of architectures");
  std::vector<int> architectures(static_cast<std::size_t>(count));
  functions_->check(functions_->architectures(architectures.data()), "no list of architectures");

  caches_itself_ = major > 12 || (major == 12 && minor >= 9);
  info_.path = location.library;
  info_.name = fmt::format("NVRTC {}.{}", major, minor);
  for (const int architecture : architectures) {
    info_.architectures.push_back(fmt::format("sm_{}", architecture));
  }
}

Nvrtc::~Nvrtc() = default;

void Nvrtc::check_architecture(const KernelRequest& request) const {
  const std::string_view capability = compute_capability(request);
  // "sm_90a" is the architecture 90 with its own features; the compiler lists numbers only.
  const std::size_t digits = capability.find_first_not_of("0123456789");
  const std::string plain = fmt::format("sm_{}", capability.substr(0, digits));
  if (std::ranges::find(info_.architectures, plain) == info_.architectures.end()) {
    throw Unsupported(
        fmt::format("{} ({}) does not know the architecture {} of kernel {}; it knows "
                    "{}",
                    info_.name, info_.path.string(), request.architecture, request.entry,
                    fmt::join(info_.architectures, ", ")));
  }
}

CompiledKernel Nvrtc::compile(const KernelRequest& request, const SourceTree& tree) const {
  check_architecture(request);

  std::vector<std::string> texts;  // keeps what `contents` points to
  std::vector<const char*> names;
  std::vector<const char*> contents;
  const std::vector<std::string> files = include_closure(tree, request.source);
  texts.reserve(files.size());
  for (const std::string& file : files) {
    const auto found = tree.find(file);
    texts.push_back(line_marker(fmt::format("{}{}", kRoot, file)) + found->second);
    names.push_back(found->first.c_str());
    contents.push_back(texts.back().c_str());
  }

  Program program(*functions_, translation_unit(request, tree),
                  fmt::format("{}{}", kRoot, request.source), names, contents);
  program.add_name(request.entry);
  std::vector<std::string> options = compiler_options(request);
  if (caches_itself_) {
    // Beside a driver NVRTC keeps results too, but not their log, where registers and spills are.
    options.emplace_back("--no-cache");
  }
  if (program.compile(options) != 0) {
    throw DeviceError(
        fmt::format("{} cannot compile {}:\n{}", info_.name, to_string(request), program.log()));
  }

  CompiledKernel kernel;
  kernel.request = request;
  kernel.symbol = program.lowered_name(request.entry);
  kernel.compiler = info_.name;
  PtxasLog log = parse_ptxas_log(program.log(), kernel.symbol);
  kernel.remarks = std::move(log.remarks);
  if (request.kind == ImageKind::ptx) {
    kernel.image = without_working_directory(program.ptx());
  } else {
    kernel.image = program.cubin();
    kernel.resources = log.resources;
    if (!kernel.resources) {
      throw DeviceError(fmt::format("{} reports no registers for {}; its log:\n{}", info_.name,
                                    to_string(request), program.log()));
    }
  }
  return kernel;
}

std::vector<std::string> compiler_options(const KernelRequest& request) {
  const bool cubin = request.kind == ImageKind::cubin;
  std::vector<std::string> options{
      fmt::format("--gpu-architecture={}_{}", cubin ? "sm" : "compute",
                  compute_capability(request)),
      "--std=c++20",
      "--generate-line-info",
      "--device-as-default-execution-space",  // constexpr code needs no annotation
      "--no-source-include",                  // only what we hand over, nothing of this machine
  };
  if (cubin) {
    options.emplace_back("--ptxas-options=-v");  // registers and spills, read from the log
  }
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

std::string translation_unit(const KernelRequest& request, const SourceTree& tree) {
  std::string text;
  if (!request.snippet.empty()) {
    text += line_marker("snippet") + request.snippet + '\n';
  }
  const auto source = tree.find(request.source);
  return text + line_marker(fmt::format("{}{}", kRoot, request.source)) +
         (source != tree.end() ? source->second : "");
}

}  // namespace jfa::jit
