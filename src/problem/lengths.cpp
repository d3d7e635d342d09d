#include "problem/lengths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "jfa/error.hpp"
#include "jfa/problem.hpp"
#include "problem/random.hpp"
#include "problem/text.hpp"

namespace jfa {
namespace {

using detail::kLongestSequence;
using detail::kMostSequences;
using detail::Random;
using detail::TextError;
using Lengths = std::vector<std::int64_t>;

// Stream numbers of the generators; inputs of problems use others.
constexpr std::uint64_t kUniformStream = 1001;
constexpr std::uint64_t kLognormalStream = 1002;
constexpr std::uint64_t kZipfStream = 1003;

// "uniform:batch=4,max=100": every option is a number; those not given keep their default.
class Options {
 public:
  Options(std::string_view text, std::map<std::string_view, double> defaults)
      : values_(std::move(defaults)) {
    std::vector<std::string_view> names;
    names.reserve(values_.size());
    for (const auto& [name, value] : values_) names.push_back(name);
    if (text.empty()) throw TextError(text, "options missing: " + detail::alternatives(names));
    detail::parse_options(text, names, [&](std::string_view name, std::string_view value) {
      const auto found = values_.find(name);
      if (found == values_.end()) return false;
      found->second = detail::parse_real(value);
      places_[name] = value;
      return true;
    });
  }

  // Throws TextError unless the number lies in [minimum, maximum].
  double real(std::string_view name, double minimum, double maximum) const {
    const double value = values_.at(name);
    if (value >= minimum && value <= maximum) return value;
    throw TextError(place(name),
                    fmt::format("{} must lie between {} and {}", name, minimum, maximum));
  }

  std::int64_t integer(std::string_view name, std::int64_t minimum, std::int64_t maximum) const {
    const double value = real(name, static_cast<double>(minimum), static_cast<double>(maximum));
    if (value == std::floor(value)) return static_cast<std::int64_t>(value);
    throw TextError(place(name), fmt::format("{} must be a whole number", name));
  }

 private:
  std::string_view place(std::string_view name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? std::string_view{} : found->second;
  }

  std::map<std::string_view, double> values_;
  std::map<std::string_view, std::string_view> places_;
};

// A spec that has been parsed; generate() makes the list.
struct Generator {
  virtual ~Generator() = default;
  virtual Lengths generate() const = 0;
};

// Mean length is about fill · max: fill = 1 gives max always, fill ≥ ½ uniform in
// [(2 fill − 1) max, max], below uniform in [1, 2 fill max] (the generator of Meta's benchmarks).
struct Uniform final : Generator {
  explicit Uniform(std::string_view text) {
    const Options options(text, {{"batch", 1}, {"max", 1024}, {"fill", 0.5}, {"seed", 1}});
    batch = options.integer("batch", 0, kMostSequences);
    longest = options.integer("max", 1, kLongestSequence);
    fill = options.real("fill", 0, 1);
    seed = options.integer("seed", 0, std::int64_t{1} << 53);
  }

  Lengths generate() const override {
    const auto most = static_cast<double>(longest);
    const auto lo = static_cast<std::int64_t>(std::max(1.0, (2 * fill - 1) * most));
    const auto hi =
        fill < 0.5 ? static_cast<std::int64_t>(std::max(1.0, 2 * fill * most)) : longest;
    Random random(static_cast<std::uint64_t>(seed), kUniformStream);
    Lengths lengths(static_cast<std::size_t>(batch), longest);
    if (fill >= 1) return lengths;
    for (std::int64_t& length : lengths) length = random.integer(lo, hi);
    return lengths;
  }

  std::int64_t batch = 0;
  std::int64_t longest = 0;
  double fill = 0;
  std::int64_t seed = 0;
};

// min(clip, max(min, ⌊loc + scale · exp(sigma · z)⌋)), z standard normal. The defaults are the
// published fit of the MovieLens-20M history lengths.
struct Lognormal final : Generator {
  explicit Lognormal(std::string_view text) {
    const Options options(text, {{"batch", 1},
                                 {"clip", 4096},
                                 {"sigma", 1.608},
                                 {"scale", 43.16},
                                 {"loc", 19.07},
                                 {"min", 1},
                                 {"seed", 1}});
    batch = options.integer("batch", 0, kMostSequences);
    clip = options.integer("clip", 0, kLongestSequence);
    shortest = options.integer("min", 0, kLongestSequence);
    sigma = options.real("sigma", 0, 100);
    scale = options.real("scale", 0, 1e12);
    loc = options.real("loc", -1e12, 1e12);
    seed = options.integer("seed", 0, std::int64_t{1} << 53);
  }

  Lengths generate() const override {
    Random random(static_cast<std::uint64_t>(seed), kLognormalStream);
    Lengths lengths(static_cast<std::size_t>(batch));
    for (std::int64_t& length : lengths) {
      const double drawn = std::floor(loc + scale * std::exp(sigma * random.normal()));
      const double bounded = std::max(static_cast<double>(shortest), drawn);
      length = static_cast<std::int64_t>(std::min(static_cast<double>(clip), bounded));
    }
    return lengths;
  }

  std::int64_t batch = 0;
  std::int64_t clip = 0;
  std::int64_t shortest = 0;
  double sigma = 0;
  double scale = 0;
  double loc = 0;
  std::int64_t seed = 0;
};

// min(clip, ⌊u^(−1 / (a − 1))⌋), u uniform in (0, 1]: P(length ≥ n) = n^(1 − a).
struct Zipf final : Generator {
  explicit Zipf(std::string_view text) {
    const Options options(text, {{"batch", 1}, {"clip", 4096}, {"a", 1.2}, {"seed", 1}});
    batch = options.integer("batch", 0, kMostSequences);
    clip = options.integer("clip", 1, kLongestSequence);
    exponent = options.real("a", 1.001, 100);
    seed = options.integer("seed", 0, std::int64_t{1} << 53);
  }

  Lengths generate() const override {
    Random random(static_cast<std::uint64_t>(seed), kZipfStream);
    Lengths lengths(static_cast<std::size_t>(batch));
    for (std::int64_t& length : lengths) {
      const double drawn = std::pow(1 - random.uniform(), -1 / (exponent - 1));
      length = static_cast<std::int64_t>(std::min(static_cast<double>(clip), std::floor(drawn)));
    }
    return lengths;
  }

  std::int64_t batch = 0;
  std::int64_t clip = 0;
  double exponent = 0;
  std::int64_t seed = 0;
};

// "17,0,1024x16"; an empty text is an empty batch.
struct List final : Generator {
  explicit List(std::string_view text) {
    if (text.empty()) return;
    std::int64_t total = 0;
    for (const std::string_view piece : detail::split(text, ',')) {
      const detail::Pair pair = detail::cut(piece, 'x');
      const std::int64_t length = detail::parse_integer(pair.before, 0, kLongestSequence);
      const std::int64_t count =
          pair.found ? detail::parse_integer(pair.after, 0, kMostSequences) : 1;
      total += count;
      if (total > kMostSequences) {
        throw TextError(piece, fmt::format("more than {} sequences", kMostSequences));
      }
      runs.push_back({length, count});
    }
  }

  Lengths generate() const override {
    Lengths lengths;
    for (const auto& [length, count] : runs) {
      lengths.insert(lengths.end(), static_cast<std::size_t>(count), length);
    }
    return lengths;
  }

  struct Run {
    std::int64_t length;
    std::int64_t count;
  };
  std::vector<Run> runs;
};

// "@file": one length a line; empty lines and lines that begin with # count for nothing.
struct File final : Generator {
  explicit File(std::string_view text) : path(text) {
    if (path.empty()) throw TextError(text, "file name missing after @");
  }

  Lengths generate() const override {
    std::ifstream file(path);
    if (!file) {
      throw InvalidArgument(fmt::format("lengths: cannot read the file '{}'", path));
    }
    Lengths lengths;
    std::array<char, 256> buffer{};  // a device has lines without end
    std::int64_t number = 1;
    for (; file.getline(buffer.data(), buffer.size()); ++number) {
      const std::string line = buffer.data();
      const auto pieces = detail::words(line);
      if (pieces.empty() || pieces[0].starts_with('#')) continue;
      try {
        if (pieces.size() > 1) throw TextError(pieces[1], "one length a line");
        lengths.push_back(detail::parse_integer(pieces[0], 0, kLongestSequence));
      } catch (const TextError& error) {
        throw InvalidArgument(
            fmt::format("lengths: {}:{}: {}", path, number, detail::marked(line, error)));
      }
    }
    if (!file.eof()) {
      throw InvalidArgument(
          fmt::format("lengths: {}:{}: cannot be read, or is longer than {} characters", path,
                      number, buffer.size() - 1));
    }
    return lengths;
  }

  std::string path;
};

std::unique_ptr<Generator> parse(std::string_view text) {
  if (text.starts_with('@')) return std::make_unique<File>(text.substr(1));
  const bool is_list = text.empty() || (text[0] >= '0' && text[0] <= '9');
  if (is_list) return std::make_unique<List>(text);
  const detail::Pair pair = detail::cut(text, ':');
  if (pair.before == "uniform") return std::make_unique<Uniform>(pair.after);
  if (pair.before == "lognormal") return std::make_unique<Lognormal>(pair.after);
  if (pair.before == "zipf") return std::make_unique<Zipf>(pair.after);
  throw TextError(
      pair.before,
      "lengths are a list (17,0,1024x16), uniform:batch=,max=,fill=,seed=, "
      "lognormal:batch=,clip=,sigma=,scale=,loc=,min=,seed=, zipf:batch=,clip=,a=,seed= "
      "or @file");
}

}  // namespace

void detail::check_length_notation(std::string_view text) {
  parse(text);
}

std::vector<std::int64_t> generate_lengths(const LengthSpec& spec) {
  try {
    return parse(spec.text)->generate();
  } catch (const TextError& error) {
    throw InvalidArgument("lengths: " + detail::marked(spec.text, error));
  }
}

}  // namespace jfa
