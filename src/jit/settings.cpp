// What the environment says about run-time compilation.
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <system_error>

#include "jfa/error.hpp"
#include "jfa/jit.hpp"

namespace jfa::jit {
namespace {

namespace fs = std::filesystem;

// The value of a variable; unset and empty are the same.
std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

fs::path cache_directory() {
  if (const std::string_view directory = environment("JFA_CACHE_DIR"); !directory.empty()) {
    return directory;
  }
  if (const std::string_view directory = environment("XDG_CACHE_HOME"); !directory.empty()) {
    return fs::path(directory) / "jfa";
  }
  if (const std::string_view home = environment("HOME"); !home.empty()) {
    return fs::path(home) / ".cache" / "jfa";
  }
  return {};
}

// "1048576", "512K", "512M", "2G".
std::uint64_t parse_bytes(std::string_view text) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  int shift = -1;
  for (const auto& [name, bits] : {std::pair{"", 0}, {"K", 10}, {"M", 20}, {"G", 30}}) {
    if (unit == name) {
      shift = bits;
    }
  }
  if (error != std::errc{} || shift < 0 ||
      count > (std::numeric_limits<std::uint64_t>::max() >> shift)) {
    throw InvalidArgument(fmt::format(
        "JFA_CACHE_LIMIT is '{}'; expected a number of bytes, or a number with K, M or G, for "
        "example 512M; 0 keeps no compiled kernels on disk",
        text));
  }
  return count << shift;
}

}  // namespace

Settings settings_from_environment() {
  Settings settings;
  settings.cache_directory = cache_directory();
  if (const std::string_view limit = environment("JFA_CACHE_LIMIT"); !limit.empty()) {
    settings.cache_limit_bytes = parse_bytes(limit);
  }
  std::string_view bundles = environment("JFA_BUNDLE");
  while (!bundles.empty()) {
    const std::size_t end = std::min(bundles.find(':'), bundles.size());
    if (end > 0) {
      settings.bundles.emplace_back(bundles.substr(0, end));
    }
    bundles.remove_prefix(std::min(end + 1, bundles.size()));
  }
  settings.nvrtc = environment("JFA_NVRTC");
  settings.kernel_sources = environment("JFA_KERNELS");
  return settings;
}

}  // namespace jfa::jit
