#include "jit/entry_file.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <system_error>

#include "jit/hash.hpp"

namespace jfa::jit {
namespace {

constexpr std::string_view kFormat = "jfa-kernel 1\n";

// The numbers of KernelResources in the order of the file.
constexpr std::array kResourceMembers{
    &KernelResources::registers,           &KernelResources::spill_store_bytes,
    &KernelResources::spill_load_bytes,    &KernelResources::stack_bytes,
    &KernelResources::static_shared_bytes, &KernelResources::barriers,
};

class Writer {
 public:
  void field(std::string_view name, std::string_view value) {
    text_ += fmt::format("{} {}\n", name, value.size());
    text_ += value;
    text_ += '\n';
  }
  void list(std::string_view name, const std::vector<std::string>& values) {
    field(name, std::to_string(values.size()));
    for (const std::string& value : values) {
      field(name, value);
    }
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Reads what Writer wrote; after the first thing that does not fit every read gives nothing.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  std::string_view field(std::string_view name) {
    std::size_t size = 0;
    if (!skip(name) || !skip(" ") || !number(size) || !skip("\n") || size > rest_.size()) {
      good_ = false;
      return {};
    }
    const std::string_view value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    good_ = skip("\n");
    return value;
  }
  std::string text(std::string_view name) { return std::string(field(name)); }
  std::vector<std::string> list(std::string_view name) {
    const std::size_t count = integer<std::size_t>(name);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < count && good_; ++i) {
      values.push_back(text(name));
    }
    return values;
  }
  template <typename T>
  T integer(std::string_view name) {
    const std::string_view digits = field(name);
    T value{};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    good_ = good_ && error == std::errc{} && end == digits.data() + digits.size();
    return value;
  }
  bool complete() const { return good_ && rest_.empty(); }

 private:
  bool skip(std::string_view expected) {
    good_ = good_ && rest_.starts_with(expected);
    if (good_) {
      rest_.remove_prefix(expected.size());
    }
    return good_;
  }
  bool number(std::size_t& value) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    good_ = good_ && error == std::errc{};
    if (good_) {
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    }
    return good_;
  }

  std::string_view rest_;
  bool good_ = true;
};

}  // namespace

std::string to_entry_file(const CompiledKernel& kernel) {
  Writer writer;
  writer.field("source", kernel.request.source);
  writer.field("entry", kernel.request.entry);
  writer.field("architecture", kernel.request.architecture);
  writer.field("kind", kernel.request.kind == ImageKind::cubin ? "cubin" : "ptx");
  writer.list("option", kernel.request.options);
  writer.field("snippet", kernel.request.snippet);
  writer.field("symbol", kernel.symbol);
  writer.field("compiler", kernel.compiler);
  writer.field("resources", kernel.resources ? "1" : "0");
  if (kernel.resources) {
    for (const auto member : kResourceMembers) {
      writer.field("number", std::to_string(*kernel.resources.*member));
    }
  }
  writer.list("remark", kernel.remarks);
  writer.field("image", kernel.image);
  const std::string body = writer.take();
  return fmt::format("{}{}\n{}", kFormat, hexadecimal(hash64(body)), body);
}

std::optional<CompiledKernel> from_entry_file(std::string_view content) {
  constexpr std::size_t kHead = kFormat.size() + 16 + 1;
  if (content.size() < kHead || !content.starts_with(kFormat)) {
    return std::nullopt;
  }
  const std::string_view checksum = content.substr(kFormat.size(), 16);
  const std::string_view body = content.substr(kHead);
  if (content[kHead - 1] != '\n' || checksum != hexadecimal(hash64(body))) {
    return std::nullopt;
  }
  Reader reader(body);
  CompiledKernel kernel;
  kernel.request.source = reader.text("source");
  kernel.request.entry = reader.text("entry");
  kernel.request.architecture = reader.text("architecture");
  kernel.request.kind = reader.field("kind") == "ptx" ? ImageKind::ptx : ImageKind::cubin;
  kernel.request.options = reader.list("option");
  kernel.request.snippet = reader.text("snippet");
  kernel.symbol = reader.text("symbol");
  kernel.compiler = reader.text("compiler");
  if (reader.field("resources") == "1") {
    kernel.resources.emplace();
    for (const auto member : kResourceMembers) {
      *kernel.resources.*member = reader.integer<int>("number");
    }
  }
  kernel.remarks = reader.list("remark");
  kernel.image = reader.text("image");
  return reader.complete() ? std::optional(std::move(kernel)) : std::nullopt;
}

}  // namespace jfa::jit
