#include "jit/entry_file.hpp"

#include <gtest/gtest.h>

namespace jfa::jit {
namespace {

CompiledKernel sample() {
  CompiledKernel kernel;
  kernel.request = {.source = "a.cu",
                    .entry = "f<1, 'x'>",
                    .architecture = "sm_90a",
                    .kind = ImageKind::ptx,
                    .options = {"-DA=\"1\n2\"", ""},
                    .snippet = "line\nline\n"};
  kernel.symbol = "_Z1f";
  kernel.compiler = "NVRTC 13.0";
  kernel.resources = KernelResources{.registers = 168, .static_shared_bytes = 4096, .barriers = 2};
  kernel.remarks = {"one", "two\n"};
  kernel.image = std::string(
      "\x7f"
      "ELF\0\n 12\n",
      10);
  return kernel;
}

void expect_equal(const CompiledKernel& a, const CompiledKernel& b) {
  EXPECT_EQ(a.request, b.request);
  EXPECT_EQ(a.symbol, b.symbol);
  EXPECT_EQ(a.compiler, b.compiler);
  EXPECT_EQ(a.resources, b.resources);
  EXPECT_EQ(a.remarks, b.remarks);
  EXPECT_EQ(a.image, b.image);
}

TEST(EntryFile, ReadsWhatItWrote) {
  CompiledKernel kernel = sample();
  std::optional<CompiledKernel> read = from_entry_file(to_entry_file(kernel));
  ASSERT_TRUE(read.has_value());
  expect_equal(*read, kernel);

  kernel.resources.reset();
  kernel.remarks.clear();
  kernel.request.kind = ImageKind::cubin;
  kernel.image.clear();
  read = from_entry_file(to_entry_file(kernel));
  ASSERT_TRUE(read.has_value());
  expect_equal(*read, kernel);
}

TEST(EntryFile, RejectsEveryCutAndEveryChangedByte) {
  const std::string content = to_entry_file(sample());
  for (std::size_t i = 0; i < content.size(); ++i) {
    EXPECT_FALSE(from_entry_file(content.substr(0, i)).has_value()) << "cut at " << i;
    std::string changed = content;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    EXPECT_FALSE(from_entry_file(changed).has_value()) << "changed at " << i;
  }
  EXPECT_FALSE(from_entry_file(content + "x").has_value());
}

}  // namespace
}  // namespace jfa::jit
