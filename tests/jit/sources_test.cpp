#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "jfa/error.hpp"
#include "jit/source_tree.hpp"
#include "jit/temporary_directory.hpp"

namespace jfa::jit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::Throws;
using ::testing::ThrowsMessage;

TEST(Sources, ClosureFollowsQuotedIncludesOnceEach) {
  const SourceTree tree{
      {"a.cu", "#include \"tile/b.cuh\"\n  #  include \"c.h\"\nint x;"},
      {"tile/b.cuh", "#pragma once\n#include \"c.h\"\n#include \"a.cu\"\n#include <cstdint>"},
      {"c.h", "#include \"missing.h\""},
      {"unrelated.cuh", ""},
  };
  EXPECT_THAT(include_closure(tree, "a.cu"), ElementsAre("a.cu", "c.h", "tile/b.cuh"));
  EXPECT_THAT(include_closure(tree, "c.h"), ElementsAre("c.h"));
}

TEST(Sources, UnknownSourceNamesTheKnownOnes) {
  const SourceTree tree{{"a.cu", ""}, {"b.cu", ""}};
  EXPECT_THAT(
      [&] { include_closure(tree, "c.cu"); },
      ThrowsMessage<InvalidArgument>(HasSubstr("'c.cu' does not exist; there are: a.cu, b.cu")));
}

TEST(Sources, ReadsADirectory) {
  const test::TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() / "tile");
  std::ofstream(directory.path() / "tile" / "b.cuh") << "line\n\"quoted\\\";\n";
  std::ofstream(directory.path() / "a.cu") << "";
  std::ofstream(directory.path() / "notes.md") << "no device code";
  EXPECT_THAT(read_sources(directory.path()),
              ElementsAre(Pair("a.cu", ""), Pair("tile/b.cuh", "line\n\"quoted\\\";\n")));
  EXPECT_THAT([&] { read_sources(directory.path() / "none"); }, Throws<DeviceError>());
}

// What the build embeds is what lies in kernels/, byte for byte.
TEST(Sources, EmbeddedEqualsKernels) {
  const SourceTree files = read_sources(JFA_KERNELS);
  EXPECT_EQ(embedded_sources().size(), files.size());
  for (const auto& [path, content] : files) {
    const auto embedded = embedded_sources().find(path);
    ASSERT_NE(embedded, embedded_sources().end()) << path;
    EXPECT_TRUE(embedded->second == content) << path << " differs";
  }
}

// Device code includes device code by its path below kernels/, and nothing of any machine.
TEST(Sources, KernelsIncludeNothingElse) {
  for (const auto& [path, content] : embedded_sources()) {
    std::istringstream lines(content);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t at = line.find("#include");
      if (at == std::string::npos || line.find_first_not_of(" \t") != at) {
        continue;
      }
      const std::size_t open = line.find('"');
      ASSERT_NE(open, std::string::npos) << path << ": " << line;
      const std::string included = line.substr(open + 1, line.rfind('"') - open - 1);
      EXPECT_TRUE(embedded_sources().contains(included)) << path << ": " << line;
    }
  }
}

}  // namespace
}  // namespace jfa::jit
