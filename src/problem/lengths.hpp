// Sequence lengths from their notation.
#pragma once

#include <string_view>

namespace jfa::detail {

// Checks the notation without reading a file or making the list. Throws TextError.
void check_length_notation(std::string_view text);

// Limits that keep a mistyped problem from taking the machine down.
constexpr long long kMostSequences = 50'000'000;
constexpr long long kLongestSequence = 1LL << 40;

}  // namespace jfa::detail
