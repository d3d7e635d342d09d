// Kernels that are no part of the library (examples, kernels of tests), compiled at run time with
// the tile language: a folder that takes the place of the embedded sources.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

namespace jfa::test {

// Holds tlx/ and a copy of `kernels`, a folder of this project, as kernels/. Make it before the
// first kernel of the process is compiled.
class KernelFolder {
 public:
  explicit KernelFolder(const std::filesystem::path& kernels)
      : folder_(std::filesystem::temp_directory_path() /
                ("jfa_tlx_test." + std::to_string(std::random_device{}()))) {
    const std::filesystem::path project = JFA_PROJECT;
    std::filesystem::create_directories(folder_);
    std::filesystem::copy(project / "kernels" / "tlx", folder_ / "tlx");
    std::filesystem::copy(project / kernels, folder_ / "kernels");
    setenv("JFA_KERNELS", folder_.c_str(), 1);
  }
  ~KernelFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  KernelFolder(const KernelFolder&) = delete;
  KernelFolder& operator=(const KernelFolder&) = delete;

 private:
  std::filesystem::path folder_;
};

}  // namespace jfa::test
