// A file that appears under its name only when it is complete.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace jfa::tool {

class OutputFile {
 public:
  // Opens a file beside `path`, so that a folder that cannot be written is known before the work
  // and not after it. What is no regular file (/dev/stdout, a pipe) is written directly. Throws
  // std::runtime_error; `option` names the path in messages.
  OutputFile(std::string option, std::string path);
  ~OutputFile();  // an unfinished file goes away; also when the program is interrupted
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void finish(std::string_view text);

 private:
  [[noreturn]] void fail() const;

  std::string option_;
  std::string path_;
  std::string target_;      // path_ behind its links
  std::string unfinished_;  // empty: written directly, or finished
  std::ofstream file_;
};

}  // namespace jfa::tool
