#include "run/runner.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "measure/floor.hpp"
#include "measure/timer.hpp"
#include "run/history_batch.hpp"
#include "run/result_sample.hpp"
#include "terminal/progress.hpp"

namespace jfa::tool {
namespace {

// Consecutive users with about `rows` rows; at least one user each.
std::vector<UserRange> split_by_rows(const Histories& histories, std::int64_t rows) {
  std::vector<UserRange> batches;
  UserRange batch;
  std::int64_t used = 0;
  for (std::int64_t user = 0; user < histories.users(); ++user) {
    if (used > 0 && used + histories.length(user) > rows) {
      batches.push_back(batch);
      batch = {user, user};
      used = 0;
    }
    used += histories.length(user);
    batch.last = user + 1;
  }
  if (batch.count() > 0) batches.push_back(batch);
  return batches;
}

std::vector<UserRange> split_by_users(std::int64_t users, std::int64_t users_a_batch) {
  std::vector<UserRange> batches;
  for (std::int64_t first = 0; first < users; first += users_a_batch) {
    batches.push_back({first, std::min(users, first + users_a_batch)});
  }
  return batches;
}

// Runs both passes of one batch: once to warm up (unless the batch is long enough not to care),
// then timed.
void run_batch(const HistoryBatch& batch, const RunSettings& settings, const MachinePeak& peak,
               LayoutResult& result) {
  const ForwardArgs forward = batch.forward();
  const BackwardArgs backward = batch.backward();
  Plan plan;
  const double plan_seconds = seconds_of([&] { plan = make_plan(forward, settings.execution); });
  const auto run_forward = [&] { attention_forward(forward, settings.execution, &plan); };
  const auto run_backward = [&] { attention_backward(backward, settings.execution, &plan); };

  constexpr double kLong = 2;  // seconds
  constexpr int kRepeats = 3;
  double forward_seconds = seconds_of(run_forward);
  double backward_seconds = seconds_of(run_backward);
  if (forward_seconds + backward_seconds < kLong) {
    std::vector<double> forward_times;
    std::vector<double> backward_times;
    for (int i = 0; i < kRepeats; ++i) {
      forward_times.push_back(seconds_of(run_forward));
      backward_times.push_back(seconds_of(run_backward));
    }
    forward_seconds = median_of(forward_times);
    backward_seconds = median_of(backward_times);
  }

  const PlanStatistics statistics = plan.statistics();
  result.rows += statistics.query_rows;
  result.pairs += statistics.visible_pairs;
  result.bytes += batch.bytes();
  result.plan_seconds += plan_seconds;
  result.forward_seconds += forward_seconds;
  result.backward_seconds += backward_seconds;
  result.floor_seconds += floor_seconds(forward_work(forward, statistics), peak) +
                          floor_seconds(backward_work(backward, statistics), peak);
  result.measured_users += batch.users();
  ++result.batches;
}

// A random choice of users whose reference costs at most the settings' number of operations.
std::vector<std::int64_t> choose_reference_users(const Histories& histories,
                                                 const RunSettings& settings) {
  const AttentionShape& shape = settings.shape;
  std::vector<std::int64_t> users(static_cast<std::size_t>(histories.users()));
  std::iota(users.begin(), users.end(), 0);
  std::shuffle(users.begin(), users.end(), std::mt19937_64(settings.seed));
  const double operations_a_pair =
      static_cast<double>(shape.heads * (4 * shape.dim + 3 * shape.value_dim));
  std::vector<std::int64_t> chosen;
  double operations = 0;
  for (const std::int64_t user : users) {
    const auto length = static_cast<double>(histories.length(user));
    const double cost = length * length * operations_a_pair;
    if (operations + cost > settings.reference_operations) continue;
    operations += cost;
    chosen.push_back(user);
    if (operations > 0.95 * settings.reference_operations) break;
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

LayoutResult run_jagged(const Histories& histories, const RunSettings& settings,
                        const MachinePeak& peak, ResultSample& sample) {
  LayoutResult result;
  const auto rows = static_cast<double>(histories.items.size());
  Progress progress("jagged attention", rows);
  for (const UserRange users : split_by_rows(histories, settings.batch_rows)) {
    const HistoryBatch batch(histories, users, settings.shape, settings.seed, 0,
                             settings.shape.dtype);
    run_batch(batch, settings, peak, result);
    sample.take(batch, users.first);
    progress.update(static_cast<double>(result.rows));
  }
  return result;
}

// Every history padded to the longest, in batches that fit in settings.padded_bytes. Stops when the
// time is used up and scales what was measured to all users: all padded histories cost the same.
LayoutResult run_padded(const Histories& histories, std::int64_t longest,
                        const RunSettings& settings, const MachinePeak& peak,
                        ResultSample& sample) {
  const double bytes_a_user =
      HistoryBatch(histories, {0, 1}, settings.shape, settings.seed, longest, settings.shape.dtype)
          .bytes();
  const auto users_a_batch =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(settings.padded_bytes / bytes_a_user));
  LayoutResult result;
  Progress progress("padded attention", static_cast<double>(histories.users()));
  for (const UserRange users : split_by_users(histories.users(), users_a_batch)) {
    const HistoryBatch batch(histories, users, settings.shape, settings.seed, longest,
                             settings.shape.dtype);
    run_batch(batch, settings, peak, result);
    sample.take(batch, users.first);
    progress.update(static_cast<double>(result.measured_users));
    if (result.seconds() > settings.padded_seconds) break;
  }
  const double all =
      static_cast<double>(histories.users()) / static_cast<double>(result.measured_users);
  result.rows = histories.users() * longest;
  for (double* value : {&result.pairs, &result.bytes, &result.plan_seconds, &result.forward_seconds,
                        &result.backward_seconds, &result.floor_seconds}) {
    *value *= all;
  }
  return result;
}

// With padding behind a history, a row sees none of it when the mask ends at the row itself.
bool sees_no_padding(const Mask& mask) {
  return mask.kind == MaskKind::causal || mask.kind == MaskKind::prefix_local ||
         (mask.kind == MaskKind::window && mask.right.value == 0);
}

ResultSample run_reference(const Histories& histories, const RunSettings& settings,
                           const std::vector<std::int64_t>& users) {
  Progress progress("float64 reference", static_cast<double>(users.size()));
  ResultSample sample(users);
  double done = 0;
  for (const std::int64_t user : users) {
    const HistoryBatch batch(histories, {user, user + 1}, settings.shape, settings.seed, 0,
                             DType::float64);
    reference_forward(batch.forward());
    reference_backward(batch.backward());
    sample.take(batch, user);
    progress.update(++done);
  }
  return sample;
}

}  // namespace

RunResult run_histories(const Histories& histories, const RunSettings& settings,
                        const MachinePeak& peak) {
  RunResult result;
  result.peak = peak;
  result.all_lengths = lengths_of(histories);
  result.lengths = length_statistics(result.all_lengths);
  const std::vector<std::int64_t> users = choose_reference_users(histories, settings);
  ResultSample jagged(users);
  result.jagged = run_jagged(histories, settings, peak, jagged);
  if (settings.padded && result.lengths.longest > 0) {
    ResultSample padded(users);
    result.padded = run_padded(histories, result.lengths.longest, settings, peak, padded);
    if (sees_no_padding(settings.shape.mask)) result.padded_difference = padded.difference(jagged);
  }
  result.errors = run_reference(histories, settings, users).errors_of(jagged);
  result.reference_users = static_cast<std::int64_t>(users.size());
  for (const std::int64_t user : users) result.reference_events += histories.length(user);
  return result;
}

}  // namespace jfa::tool
