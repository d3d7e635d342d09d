// Where NVRTC may be: a place the user names, the Python environment, the CUDA toolkit.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "jit/nvrtc.hpp"

namespace jfa::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLibrary = "libnvrtc.so";
constexpr std::string_view kBuiltins = "libnvrtc-builtins.so.";

// "13.0.88" → {13, 0, 88}; a part that is no number ends it.
std::array<int, 3> version_numbers(std::string_view text) {
  std::array<int, 3> numbers{};
  for (int& number : numbers) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{}) {
      break;
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.starts_with('.')) {
      break;
    }
    text.remove_prefix(1);
  }
  return numbers;
}

// The files of `directory` whose name is `prefix` and then nothing or a version, oldest first.
std::vector<fs::path> versions_in(const fs::path& directory, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix)) {
      found.push_back(entry.path());
    }
  }
  const auto version = [&](const fs::path& path) {
    std::string_view rest = path.filename().native();
    rest.remove_prefix(prefix.size());
    return version_numbers(rest.starts_with('.') ? rest.substr(1) : rest);
  };
  std::sort(found.begin(), found.end(),
            [&](const fs::path& a, const fs::path& b) { return version(a) < version(b); });
  return found;
}

// Of several wheel layouts the one of CUDA 13 first: it knows every architecture of CUDA 12.
void add_site_packages(std::vector<fs::path>& places, const fs::path& site_packages) {
  places.push_back(site_packages / "nvidia" / "cu13" / "lib");
  places.push_back(site_packages / "nvidia" / "cuda_nvrtc" / "lib");
}

void add_python_prefix(std::vector<fs::path>& places, const fs::path& prefix) {
  for (const fs::path& python : versions_in(prefix / "lib", "python3")) {
    add_site_packages(places, python / "site-packages");
    add_site_packages(places, python / "dist-packages");
  }
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// The shared object (or program) that this code is part of.
fs::path this_binary() {
  Dl_info info{};
  std::error_code error;
  if (dladdr(reinterpret_cast<const void*>(&missing_nvrtc_message), &info) == 0) {
    return {};
  }
  return fs::canonical(info.dli_fname, error);
}

void add_python_environments(std::vector<fs::path>& places) {
  // The library installed as part of a Python package: site-packages/jfa/….
  for (fs::path folder = this_binary().parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (folder.filename() == "site-packages" || folder.filename() == "dist-packages") {
      add_site_packages(places, folder);
    }
  }
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* prefix = environment(variable)) {
      add_python_prefix(places, prefix);
    }
  }
  std::error_code error;  // the running program is a Python interpreter: <prefix>/bin/python3
  if (const fs::path program = fs::read_symlink("/proc/self/exe", error);
      program.filename().native().starts_with("python")) {
    add_python_prefix(places, program.parent_path().parent_path());
  }
}

void add_toolkits(std::vector<fs::path>& places) {
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = environment(variable)) {
      places.push_back(fs::path(home) / "lib64");
    }
  }
  if (const char* paths = environment("LD_LIBRARY_PATH")) {
    std::string_view rest = paths;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      places.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  for (const char* folder : {"/usr/local/cuda/lib64", "/opt/cuda/lib64",
                             "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"}) {
    places.emplace_back(folder);
  }
}

std::vector<fs::path> default_places() {
  std::vector<fs::path> places;
  add_python_environments(places);
  if (constexpr std::string_view prefix = JFA_PYTHON_PREFIX; !prefix.empty()) {
    add_python_prefix(places, prefix);
  }
  add_toolkits(places);
  return places;
}

// The version comes from the name of the library of built-in functions, which lies beside and
// carries the minor version; with the size it tells patch releases apart.
std::string identity_of(const fs::path& library) {
  const std::vector<fs::path> builtins = versions_in(library.parent_path(), kBuiltins);
  std::array<int, 3> version{};
  if (!builtins.empty()) {
    version = version_numbers(builtins.back().filename().native().substr(kBuiltins.size()));
  }
  std::error_code error;
  return fmt::format("{}.{}-{}", version[0], version[1], fs::file_size(library, error));
}

}  // namespace

NvrtcLocation find_nvrtc(const fs::path& wanted) {
  NvrtcLocation location;
  std::error_code error;
  const auto use = [&](const fs::path& library) {
    location.library = fs::canonical(library, error);
    location.identity = identity_of(location.library);
  };
  location.searched = wanted.empty() ? default_places() : std::vector<fs::path>{wanted};
  for (const fs::path& place : location.searched) {
    if (fs::is_regular_file(place, error)) {
      use(place);
      break;
    }
    if (const std::vector<fs::path> found = versions_in(place, kLibrary); !found.empty()) {
      use(found.back());
      break;
    }
  }
  return location;
}

std::string missing_nvrtc_message(const NvrtcLocation& location) {
  std::string places;
  for (const fs::path& place : location.searched) {
    places += "\n  " + place.string();
  }
  return fmt::format(
      "there is no CUDA run-time compiler (libnvrtc.so.12 or newer). Install the Python package "
      "nvidia-cuda-nvrtc, or name the library or its directory in JFA_NVRTC, or use a bundle made "
      "by `jfa bundle` (JFA_BUNDLE). Searched:{}",
      places);
}

}  // namespace jfa::jit
