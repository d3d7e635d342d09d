#include "report/length_bins.hpp"

#include <algorithm>
#include <cmath>

namespace jfa::tool {

std::vector<LengthBin> length_bins(const std::vector<std::int64_t>& lengths, int most) {
  std::vector<LengthBin> bins;
  if (lengths.empty() || most < 1) return bins;
  const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  const double ratio =
      static_cast<double>(*longest + 1) / static_cast<double>(std::max<std::int64_t>(*shortest, 1));
  const double factor = std::pow(ratio, 1.0 / most);
  auto edge = static_cast<double>(std::max<std::int64_t>(*shortest, 1));
  for (std::int64_t low = *shortest; low <= *longest;) {
    edge = std::max(edge * factor, static_cast<double>(low + 1));
    const auto next = std::min(*longest + 1, static_cast<std::int64_t>(std::llround(edge)));
    bins.push_back({low, std::max(next, low + 1) - 1, 0, 0});
    low = bins.back().high + 1;
  }
  for (const std::int64_t length : lengths) {
    const auto bin = std::find_if(bins.begin(), bins.end(),
                                  [&](const LengthBin& b) { return length <= b.high; });
    ++bin->users;
    bin->events += length;
  }
  return bins;
}

}  // namespace jfa::tool
