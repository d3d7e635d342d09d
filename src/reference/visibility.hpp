// Which keys a query row may see: docs/contract.md, "Masks", word for word. Written without key
// intervals on purpose, so that it can judge them.
#pragma once

#include <cstdint>

#include "api/call.hpp"

namespace jfa::detail {

// Position of query row i on the key axis of its sequence.
std::int64_t position(const SequenceView& sequence, std::int64_t i);

// Whether query row i sees key j, 0 ≤ j < sequence.k_length.
bool visible(const Mask& mask, const SequenceView& sequence, std::int64_t i, std::int64_t j);

}  // namespace jfa::detail
