#include "jit/source_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <system_error>

#include "jfa/error.hpp"

namespace jfa::jit {
namespace {

namespace fs = std::filesystem;

bool is_device_code(const fs::path& path) {
  const fs::path extension = path.extension();
  return extension == ".cu" || extension == ".cuh" || extension == ".h";
}

std::string_view skip_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view{} : text.substr(first);
}

// Removes `word` and the blanks behind it from the front of `line`; false when it is not there.
bool take(std::string_view& line, std::string_view word) {
  if (!line.starts_with(word)) {
    return false;
  }
  line = skip_blanks(line.substr(word.size()));
  return true;
}

// The paths of `#include "path"` lines.
std::vector<std::string> quoted_includes(std::string_view content) {
  std::vector<std::string> paths;
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    std::string_view line = skip_blanks(content.substr(0, end));
    content.remove_prefix(std::min(end + 1, content.size()));
    if (take(line, "#") && take(line, "include") && line.starts_with('"')) {
      line.remove_prefix(1);
      paths.emplace_back(line.substr(0, line.find('"')));
    }
  }
  return paths;
}

}  // namespace

SourceTree read_sources(const fs::path& directory) {
  SourceTree tree;
  try {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
      if (!entry.is_regular_file() || !is_device_code(entry.path())) {
        continue;
      }
      std::ifstream file(entry.path(), std::ios::binary);
      std::string content(entry.file_size(), '\0');
      if (!file.read(content.data(), static_cast<std::streamsize>(content.size()))) {
        throw fs::filesystem_error("cannot read", entry.path(),
                                   std::make_error_code(std::errc::io_error));
      }
      tree.emplace(entry.path().lexically_relative(directory).generic_string(), std::move(content));
    }
  } catch (const fs::filesystem_error& error) {
    throw DeviceError(fmt::format("kernel sources in '{}': {}", directory.string(), error.what()));
  }
  return tree;
}

std::vector<std::string> include_closure(const SourceTree& tree, std::string_view source) {
  if (!tree.contains(source)) {
    std::string known;
    for (const auto& [path, content] : tree) {
      known += known.empty() ? path : ", " + path;
    }
    throw InvalidArgument(
        fmt::format("kernel source '{}' does not exist; there are: {}", source, known));
  }
  std::set<std::string> closure;
  std::vector<std::string> open{std::string(source)};
  while (!open.empty()) {
    const std::string path = std::move(open.back());
    open.pop_back();
    const auto file = tree.find(path);
    if (file == tree.end() || !closure.insert(path).second) {
      continue;
    }
    for (std::string& include : quoted_includes(file->second)) {
      open.push_back(std::move(include));
    }
  }
  return {closure.begin(), closure.end()};
}

}  // namespace jfa::jit
