// Runs a fuzz target without libFuzzer: every file of the corpus, then seeded mutations of them.
// Deterministic, so it serves as a test; `make fuzz` searches with coverage guidance.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kMutationsPerFile = 2000;
constexpr std::size_t kLongestInput = 4096;

using Bytes = std::vector<std::uint8_t>;

std::vector<Bytes> read_corpus(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> inputs;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<Bytes>& corpus) : corpus_(corpus) {}

  Bytes mutate(Bytes input) {
    const std::size_t edits = 1 + below(8);
    for (std::size_t edit = 0; edit < edits; ++edit) edit_once(input);
    input.resize(std::min(input.size(), kLongestInput));
    return input;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }
  std::ptrdiff_t place_in(const Bytes& bytes) {
    return static_cast<std::ptrdiff_t>(below(bytes.size() + 1));
  }

  void edit_once(Bytes& input) {
    static constexpr std::string_view kInteresting(
        "\",;=:x\n\r\t\0 -+.eE0123456789@|#'\xff\xef\xbb\xbf", 35);
    const std::ptrdiff_t place = place_in(input);
    switch (below(5)) {
      case 0:  // a byte that grammars care about
        input.insert(input.begin() + place,
                     static_cast<std::uint8_t>(kInteresting[below(kInteresting.size())]));
        break;
      case 1:  // any byte in place of another
        if (!input.empty()) input[below(input.size())] = static_cast<std::uint8_t>(below(256));
        break;
      case 2:  // drop a range
        input.erase(
            input.begin() + place,
            input.begin() + std::min<std::ptrdiff_t>(place + static_cast<std::ptrdiff_t>(below(16)),
                                                     static_cast<std::ptrdiff_t>(input.size())));
        break;
      case 3: {  // repeat a digit or any other byte many times
        const std::size_t count = below(64);
        const std::uint8_t byte = input.empty() ? '9' : input[below(input.size())];
        input.insert(input.begin() + place, count, byte);
        break;
      }
      default: {  // splice a piece of another input
        const Bytes& other = corpus_[below(corpus_.size())];
        const std::ptrdiff_t first = place_in(other);
        const std::ptrdiff_t last =
            std::min<std::ptrdiff_t>(first + static_cast<std::ptrdiff_t>(below(64)),
                                     static_cast<std::ptrdiff_t>(other.size()));
        input.insert(input.begin() + place, other.begin() + first, other.begin() + last);
      }
    }
  }

  const std::vector<Bytes>& corpus_;
  std::mt19937_64 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  const std::vector<Bytes> corpus = read_corpus(argv[1]);
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: the corpus is empty\n", argv[1]);
    return 2;
  }
  Mutator mutator(corpus);
  int runs = 0;
  for (const Bytes& input : corpus) {
    LLVMFuzzerTestOneInput(input.data(), input.size());
    for (int i = 0; i < kMutationsPerFile; ++i) {
      const Bytes mutated = mutator.mutate(input);
      LLVMFuzzerTestOneInput(mutated.data(), mutated.size());
    }
    runs += 1 + kMutationsPerFile;
  }
  std::printf("%d inputs\n", runs);
  return 0;
}
