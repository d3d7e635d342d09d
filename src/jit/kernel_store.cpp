#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <system_error>
#include <unordered_map>

#include "jfa/error.hpp"
#include "jfa/jit.hpp"
#include "jit/disk_cache.hpp"
#include "jit/hash.hpp"
#include "jit/nvrtc.hpp"
#include "jit/source_tree.hpp"

namespace jfa::jit {
namespace {

// Fields of a text that is hashed or compared; a length in front keeps neighbours apart.
void append_field(std::string& text, std::string_view field) {
  text += fmt::format("{} ", field.size());
  text += field;
}

std::string identity(const KernelRequest& request) {
  std::string text;
  append_field(text, request.source);
  append_field(text, request.entry);
  append_field(text, request.snippet);
  for (const std::string& option : compiler_options(request)) {  // architecture and kind included
    append_field(text, option);
  }
  return text;
}

void validate(const KernelRequest& request) {
  const auto reject = [&](std::string_view what) {
    throw InvalidArgument(fmt::format("kernel request {}: {}", to_string(request), what));
  };
  if (request.entry.empty()) {
    reject("entry is empty; expected the kernel's name, for example jfa::examples::vector_add");
  }
  for (const std::string& option : request.options) {
    if (!option.starts_with('-')) {
      reject(fmt::format("option '{}' does not start with '-'", option));
    }
  }
}

}  // namespace

struct KernelStore::State {
  // One kernel of this process; the mutex makes threads that want the same kernel wait for one.
  struct Slot {
    std::mutex mutex;
    std::shared_ptr<const CompiledKernel> kernel;
  };

  explicit State(Settings with) : settings(std::move(with)), location(find_nvrtc(settings.nvrtc)) {
    if (!settings.kernel_sources.empty()) {
      own_sources = read_sources(settings.kernel_sources);
    }
    if (!settings.cache_directory.empty() && settings.cache_limit_bytes > 0) {
      disk.emplace(settings.cache_directory);
    }
  }

  const SourceTree& sources() const {
    return settings.kernel_sources.empty() ? embedded_sources() : own_sources;
  }

  std::shared_ptr<Slot> slot(const KernelRequest& request) {
    const std::lock_guard lock(slots_mutex);
    std::shared_ptr<Slot>& slot = slots[identity(request)];
    if (!slot) {
      slot = std::make_shared<Slot>();
    }
    return slot;
  }

  std::string key(const KernelRequest& request) const {
    std::string text = identity(request);
    for (const std::string& file : include_closure(sources(), request.source)) {
      append_field(text, file);
      append_field(text, sources().find(file)->second);
    }
    return hash_name(text);
  }

  const Nvrtc& compiler() {
    const std::lock_guard lock(compiler_mutex);
    if (!nvrtc) {
      nvrtc.emplace(location);
    }
    return *nvrtc;
  }

  // From bundles and the disk cache.
  std::optional<CompiledKernel> load(const std::string& key) const {
    for (const std::filesystem::path& bundle : settings.bundles) {
      if (std::optional<CompiledKernel> kernel = DiskCache(bundle).load(key, "")) {
        return kernel;
      }
    }
    return disk ? disk->load(key, location.identity) : std::nullopt;
  }

  // A kernel that was made but cannot be kept still serves this process.
  void keep(const std::string& key, const CompiledKernel& kernel) {
    try {
      disk->evict(settings.cache_limit_bytes, disk->store(key, location.identity, kernel));
    } catch (const DeviceError& error) {
      std::call_once(warned, [&] { std::fprintf(stderr, "jfa: %s\n", error.what()); });
    }
  }

  CompiledKernel load_or_compile(const KernelRequest& request) {
    const std::string key = this->key(request);
    if (std::optional<CompiledKernel> kernel = load(key)) {
      return *std::move(kernel);
    }
    if (!disk) {
      return compiler().compile(request, sources());
    }
    const KeyLock lock(disk->directory(), key, settings.lock_timeout_seconds);
    if (std::optional<CompiledKernel> kernel = disk->load(key, location.identity)) {
      return *std::move(kernel);  // another process made it while we waited
    }
    CompiledKernel kernel = compiler().compile(request, sources());
    keep(key, kernel);
    return kernel;
  }

  const Settings settings;
  const NvrtcLocation location;
  SourceTree own_sources;
  std::optional<DiskCache> disk;

  std::mutex slots_mutex;
  std::unordered_map<std::string, std::shared_ptr<Slot>> slots;
  std::mutex compiler_mutex;
  std::optional<Nvrtc> nvrtc;
  std::once_flag warned;
};

KernelStore::KernelStore(Settings settings)
    : state_(std::make_unique<State>(std::move(settings))) {}

KernelStore::~KernelStore() = default;

const Settings& KernelStore::settings() const {
  return state_->settings;
}

std::shared_ptr<const CompiledKernel> KernelStore::get(const KernelRequest& request) {
  validate(request);
  const std::shared_ptr<State::Slot> slot = state_->slot(request);
  const std::lock_guard lock(slot->mutex);
  if (!slot->kernel) {
    slot->kernel = std::make_shared<const CompiledKernel>(state_->load_or_compile(request));
  }
  return slot->kernel;
}

CompiledKernel KernelStore::compile(const KernelRequest& request) {
  validate(request);
  return state_->compiler().compile(request, state_->sources());
}

CompilerInfo KernelStore::compiler() {
  return state_->compiler().info();
}

std::vector<CacheEntry> KernelStore::list() const {
  return state_->disk ? state_->disk->list() : std::vector<CacheEntry>{};
}

std::vector<KernelRequest> KernelStore::cached_requests() const {
  std::vector<KernelRequest> requests;
  for (const CacheEntry& entry : list()) {
    // A file is named after the key; a source that changed, or is gone, gives another.
    if (entry.kernel && state_->sources().contains(entry.kernel->request.source) &&
        entry.file.filename().native().starts_with(state_->key(entry.kernel->request)) &&
        std::ranges::find(requests, entry.kernel->request) == requests.end()) {
      requests.push_back(entry.kernel->request);
    }
  }
  return requests;
}

std::uint64_t KernelStore::clear() {
  return state_->disk ? state_->disk->clear() : 0;
}

std::vector<std::filesystem::path> KernelStore::write_bundle(
    const std::vector<KernelRequest>& requests, const std::filesystem::path& directory) {
  const std::string compiler =
      state_->location.library.empty() ? "prebuilt" : state_->location.identity;
  std::vector<std::filesystem::path> files;
  files.reserve(requests.size());
  for (const KernelRequest& request : requests) {
    const std::shared_ptr<const CompiledKernel> kernel = get(request);
    files.push_back(DiskCache(directory).store(state_->key(request), compiler, *kernel));
  }
  return files;
}

KernelStore& default_store() {
  static KernelStore store(settings_from_environment());
  return store;
}

std::string to_string(const KernelRequest& request) {
  return fmt::format("{} {} {} ({})", request.architecture,
                     request.kind == ImageKind::cubin ? "cubin" : "ptx", request.entry,
                     request.source);
}

std::string to_string(const KernelResources& resources) {
  const int spilled = resources.spill_store_bytes + resources.spill_load_bytes;
  return fmt::format("{} registers, {}, {} bytes of static shared memory, {} barriers",
                     resources.registers,
                     spilled == 0 ? "no spills" : fmt::format("{} BYTES SPILLED", spilled),
                     resources.static_shared_bytes, resources.barriers);
}

}  // namespace jfa::jit
