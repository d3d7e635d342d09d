// The main job: attention forward and backward over user histories, timed, compared with the padded
// equivalent and with the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "events/histories.hpp"
#include "measure/machine.hpp"
#include "run/settings.hpp"

namespace jfa::tool {

// One way to lay the histories out, over all of them: what was measured on some users, chosen at
// random, is scaled up.
struct LayoutResult {
  std::int64_t rows = 0;  // of q, over all batches
  double pairs = 0;       // (query, key) pairs computed, one head
  double bytes = 0;       // q, k, v, out, lse, d_out and gradients of all histories
  double plan_seconds = 0;
  double forward_seconds = 0;
  double backward_seconds = 0;
  double floor_seconds = 0;  // of forward and backward together, from the machine's peak
  std::int64_t batches = 0;
  std::int64_t measured_users = 0;

  double seconds() const { return forward_seconds + backward_seconds; }
};

// The engine's results for some users against the reference.
struct ResultError {
  std::string tensor;
  // ‖x − r‖ / ‖r‖, Frobenius norms. For a gradient ‖r‖ counts as at least a quarter of the norm of
  // all gradients together: one that cancels to nearly nothing (histories of a single event) has no
  // relative accuracy of its own.
  double relative = 0;
  double worst = 0;  // largest |x − r|
};

struct RunResult {
  LengthStatistics lengths;
  std::vector<std::int64_t> all_lengths;
  MachinePeak peak;
  LayoutResult jagged;
  std::optional<LayoutResult> padded;
  std::string why_not_padded;  // when it was asked for and cannot be measured
  // Largest relative difference between the padded and the jagged results of the same users; absent
  // when the mask lets a history see its padding, so that the two differ by right.
  std::optional<double> padded_difference;
  std::vector<ResultError> errors;
  std::int64_t reference_users = 0;
  std::int64_t reference_events = 0;
};

// `peak` is of settings.execution.threads threads. Throws std::runtime_error when the tensors of a
// batch take more than settings.memory_bytes.
RunResult run_histories(Histories histories, const RunSettings& settings, const MachinePeak& peak);

}  // namespace jfa::tool
