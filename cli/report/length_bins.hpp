// A histogram of lengths with bins that grow by a fixed factor.
#pragma once

#include <cstdint>
#include <vector>

namespace jfa::tool {

struct LengthBin {
  std::int64_t low = 0;  // lengths low … high
  std::int64_t high = 0;
  std::int64_t users = 0;
  std::int64_t events = 0;
};

// At most `most` bins from the shortest to the longest length, none empty at either end. Bins hold
// single lengths where the factor would be narrower than that.
std::vector<LengthBin> length_bins(const std::vector<std::int64_t>& lengths, int most);

}  // namespace jfa::tool
