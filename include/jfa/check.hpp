// Compares an engine with the float64 reference on a one-line problem.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "jfa/attention.hpp"
#include "jfa/problem.hpp"

namespace jfa {

// How one result of an engine compares with the reference. Errors are of the elements that the
// reference gives a finite value; the rest must match exactly.
struct TensorCheck {
  std::string tensor;         // "out", "lse", "d_q", …
  double relative_error = 0;  // ‖x − r‖ / ‖r‖, Frobenius norms
  double allowed_relative_error = 0;
  double worst_error = 0;  // largest |x − r|
  double allowed_worst_error = 0;
  std::int64_t bad_elements = 0;  // elements off by more than allowed, or not exactly 0 or −∞
  std::string first_bad;          // "sequence 2 row 5 head 0 column 17: got 0.5, expected 0.25"

  bool passed() const { return first_bad.empty(); }
};

struct CheckReport {
  std::vector<TensorCheck> tensors;
  std::string memory_violation;  // what the engine overwrote; empty when nothing

  bool passed() const;
};

// Several lines for a person: errors and limits a tensor, then the first bad coordinate.
std::string to_string(const CheckReport& report);

// An engine under test.
struct EngineCalls {
  std::function<void(const ForwardArgs&)> forward;
  std::function<void(const BackwardArgs&)> backward;
};

// Runs forward, and backward for backward problems, on fresh inputs and compares every result.
//
// A result passes when every element that nothing contributes to is exactly 0 (lse: −∞), and both
//   ‖x − r‖ ≤ max(tolerance · ‖r‖, 2 ‖b − r‖, ‖f‖)  and
//   |x − r| ≤ 2 max |b − r| + 2 u max |r| + max f  for every element,
// where r is the reference, b a two-pass implementation that accumulates in float32, f what float32
// cannot resolve however the element is computed (it matters under cancellation and for scores in
// the hundreds), u the unit roundoff of the result's type. `tolerance` is the contract's: 5e-3 for
// bfloat16, 8e-4 for float16, 2e-6 for float32, twice that for gradients.
CheckReport check(const Problem& problem, const EngineCalls& engine);
CheckReport check(const Problem& problem, const Execution& execution = {});

}  // namespace jfa
