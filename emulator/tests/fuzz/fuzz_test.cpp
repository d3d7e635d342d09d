// Runs the fuzz entry on the corpus and on seeded mutations of it.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void feed(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

std::vector<std::string> corpus() {
  std::vector<std::string> result;
  for (const auto& entry : std::filesystem::directory_iterator(PTXEMU_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    result.push_back(content.str());
  }
  return result;
}

TEST(Fuzz, CorpusLoadsOrIsRefused) {
  const auto texts = corpus();
  ASSERT_FALSE(texts.empty());
  for (const std::string& text : texts) feed(text);
}

TEST(Fuzz, SeededMutationsNeitherCrashNorHang) {
  std::mt19937 random(20240607);
  for (const std::string& original : corpus()) {
    for (int round = 0; round < 150; ++round) {
      std::string text = original;
      const int edits = 1 + static_cast<int>(random() % 4);
      for (int e = 0; e < edits && !text.empty(); ++e) {
        const std::size_t at = random() % text.size();
        const std::size_t length = std::min<std::size_t>(1 + random() % 12, text.size() - at);
        switch (random() % 5) {
          case 0:
            text[at] = static_cast<char>(random() % 96 + 32);
            break;
          case 1:
            text.erase(at, length);
            break;
          case 2:
            text.insert(at, text.substr(random() % text.size(), length));
            break;
          case 3:
            text.replace(at, length, std::to_string(random()));
            break;
          default:
            text.resize(at);
            break;
        }
      }
      feed(text);
    }
  }
}

}  // namespace
