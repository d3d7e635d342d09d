// jfa cache: the compiled kernels that are kept on disk.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands/commands.hpp"
#include "jfa/jit.hpp"
#include "terminal/style.hpp"

namespace jfa::tool {
namespace {

using Json = nlohmann::ordered_json;

std::string age_of(const jit::CacheEntry& entry) {
  const auto age = std::chrono::file_clock::now() - entry.last_used;
  return show_seconds(std::max(std::chrono::duration<double>(age).count(), 0.0));
}

Json json_of(const jit::CacheEntry& entry) {
  Json json = {{"file", entry.file.string()}, {"bytes", entry.bytes}, {"damaged", !entry.kernel}};
  if (entry.kernel) {
    const jit::CompiledKernel& kernel = *entry.kernel;
    json["source"] = kernel.request.source;
    json["entry"] = kernel.request.entry;
    json["architecture"] = kernel.request.architecture;
    json["kind"] = kernel.request.kind == jit::ImageKind::cubin ? "cubin" : "ptx";
    json["options"] = kernel.request.options;
    json["compiler"] = kernel.compiler;
    if (kernel.resources) {
      json["registers"] = kernel.resources->registers;
      json["spilled_bytes"] =
          kernel.resources->spill_store_bytes + kernel.resources->spill_load_bytes;
      json["static_shared_bytes"] = kernel.resources->static_shared_bytes;
    }
    json["remarks"] = kernel.remarks;
  }
  return json;
}

void print(const jit::CacheEntry& entry) {
  if (!entry.kernel) {
    fmt::print("{}\n  {}, damaged; it will be made anew when it is needed\n",
               entry.file.filename().string(), show_bytes(static_cast<double>(entry.bytes)));
    return;
  }
  const jit::CompiledKernel& kernel = *entry.kernel;
  fmt::print("{}\n", paint(Colour::bold, to_string(kernel.request)));
  fmt::print("  {}, {}, used {} ago{}\n", show_bytes(static_cast<double>(entry.bytes)),
             kernel.compiler, age_of(entry),
             kernel.resources ? ", " + to_string(*kernel.resources) : "");
  for (const std::string& remark : kernel.remarks) {
    fmt::print("  {}\n", remark);
  }
}

int list(bool as_json) {
  const jit::KernelStore& store = jit::default_store();
  const std::vector<jit::CacheEntry> entries = store.list();
  if (as_json) {
    Json json = Json::array();
    for (const jit::CacheEntry& entry : entries) {
      json.push_back(json_of(entry));
    }
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    return kSuccess;
  }
  double bytes = 0;
  for (const jit::CacheEntry& entry : entries) {
    print(entry);
    bytes += static_cast<double>(entry.bytes);
  }
  fmt::print("{} kernels, {} of {} in {}\n", entries.size(), show_bytes(bytes),
             show_bytes(static_cast<double>(store.settings().cache_limit_bytes)),
             store.settings().cache_directory.string());
  return kSuccess;
}

int clear() {
  jit::KernelStore& store = jit::default_store();
  const std::uint64_t freed = store.clear();
  fmt::print("freed {} in {}\n", show_bytes(static_cast<double>(freed)),
             store.settings().cache_directory.string());
  return kSuccess;
}

}  // namespace

void add_cache(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("cache", "Compiled kernels on disk (JFA_CACHE_DIR, JFA_CACHE_LIMIT)");
  command->require_subcommand(1);
  auto as_json = std::make_shared<bool>(false);
  CLI::App* list_command =
      command->add_subcommand("list", "Every kernel, the most recently used first");
  list_command->add_flag("--json", *as_json, "Print JSON");
  list_command->callback([as_json, &exit_code] { exit_code = list(*as_json); });
  command->add_subcommand("clear", "Remove them all")->callback([&exit_code] {
    exit_code = clear();
  });
  command->add_subcommand("path", "Print the directory")->callback([&exit_code] {
    fmt::print("{}\n", jit::default_store().settings().cache_directory.string());
    exit_code = kSuccess;
  });
}

}  // namespace jfa::tool
