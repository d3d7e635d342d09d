#include "report/output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "terminal/interrupt.hpp"

namespace jfa::tool {

OutputFile::OutputFile(std::string option, std::string path)
    : option_(std::move(option)), path_(std::move(path)) {
  std::error_code ignored;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path_, ignored);
  target_ = ignored ? path_ : target.string();
  const auto status = std::filesystem::status(target_, ignored);
  const bool special = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  // A rename would replace even a file that is protected against writing.
  if (std::filesystem::exists(status) && access(target_.c_str(), W_OK) != 0) fail();
  if (!special) {
    unfinished_ = fmt::format("{}.{}.unfinished", target_, getpid());
    set_unfinished_file(unfinished_);
  }
  file_.open(special ? target_ : unfinished_, std::ios::binary);
  if (!file_) {
    set_unfinished_file("");
    fail();
  }
}

OutputFile::~OutputFile() {
  if (!unfinished_.empty()) std::remove(unfinished_.c_str());
  set_unfinished_file("");
}

void OutputFile::finish(std::string_view text) {
  file_ << text;
  file_.close();
  if (!file_) fail();
  if (unfinished_.empty()) return;
  if (std::rename(unfinished_.c_str(), target_.c_str()) != 0) fail();
  unfinished_.clear();
}

void OutputFile::fail() const {
  throw std::runtime_error(
      fmt::format("{} {}: cannot be written: {}", option_, path_, std::strerror(errno)));
}

}  // namespace jfa::tool
