#include "run/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>

#include "measure/floor.hpp"
#include "measure/timer.hpp"
#include "run/history_batch.hpp"
#include "run/result_sample.hpp"
#include "terminal/progress.hpp"
#include "terminal/style.hpp"

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

// Runs both passes of one batch `runs` times, or once when that takes long. The first of several
// runs only warms up.
void run_batch(const HistoryBatch& batch, const RunSettings& settings, const MachinePeak& peak,
               int runs, LayoutResult& result) {
  const ForwardArgs forward = batch.forward();
  const BackwardArgs backward = batch.backward();
  Plan plan;
  const double plan_seconds = seconds_of([&] { plan = make_plan(forward, settings.execution); });
  const auto run_forward = [&] { attention_forward(forward, settings.execution, &plan); };
  const auto run_backward = [&] { attention_backward(backward, settings.execution, &plan); };

  constexpr double kLong = 2;  // seconds
  std::vector<double> forward_times;
  std::vector<double> backward_times;
  double run_seconds = 0;
  do {
    forward_times.push_back(seconds_of(run_forward));
    backward_times.push_back(seconds_of(run_backward));
    run_seconds = forward_times.back() + backward_times.back();
  } while (std::ssize(forward_times) < runs && run_seconds < kLong);
  if (forward_times.size() > 1) {
    forward_times.erase(forward_times.begin());
    backward_times.erase(backward_times.begin());
  }

  const PlanStatistics statistics = plan.statistics();
  result.rows += statistics.query_rows;
  result.pairs += statistics.visible_pairs;
  result.bytes += batch.bytes();
  result.plan_seconds += plan_seconds;
  result.forward_seconds += median_of(forward_times);
  result.backward_seconds += median_of(backward_times);
  result.floor_seconds += floor_seconds(forward_work(forward, statistics), peak) +
                          floor_seconds(backward_work(backward, statistics), peak);
  result.measured_users += batch.users();
  ++result.batches;
}

std::vector<std::int64_t> random_order(std::int64_t users, std::uint64_t seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(users));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  return order;
}

// Multiply-adds of both passes for one (query, key) pair.
double operations_a_pair(const AttentionShape& shape) {
  return static_cast<double>(shape.heads * (4 * shape.dim + 3 * shape.value_dim));
}

double reference_operations(const AttentionShape& shape, std::int64_t length) {
  return static_cast<double>(length) * static_cast<double>(length) * operations_a_pair(shape);
}

// Moves users whose reference costs at most the settings' number of operations to the front;
// returns how many. Their results are kept to be compared, some ten kilobytes an event.
std::int64_t choose_reference_users(const Histories& histories, const RunSettings& settings,
                                    std::vector<std::int64_t>& order) {
  constexpr std::int64_t kMostEvents = std::int64_t{1} << 14;
  double operations = 0;
  std::int64_t events = 0;
  const auto chosen = std::stable_partition(order.begin(), order.end(), [&](std::int64_t user) {
    const std::int64_t length = histories.length(user);
    const double cost = reference_operations(settings.shape, length);
    if (operations + cost > settings.reference_operations) return false;
    if (events + length > kMostEvents) return false;
    operations += cost;
    events += length;
    return true;
  });
  return chosen - order.begin();
}

// Runs batches until all are done or the time is used up; scales what was measured to all users.
// `rows` 0: jagged.
LayoutResult run_layout(const Histories& histories, const std::vector<UserRange>& batches,
                        std::int64_t rows, const RunSettings& settings, const MachinePeak& peak,
                        ResultSample& sample) {
  constexpr std::size_t kFewBatches = 4;
  const int repeats = batches.size() <= kFewBatches ? 4 : 1;
  const auto users = static_cast<double>(histories.users());
  LayoutResult result;
  BatchMemory memory;
  Progress progress(rows == 0 ? "jagged attention" : "padded attention", 1);
  const Stopwatch watch;
  for (const UserRange range : batches) {
    const HistoryBatch batch(histories, range, settings.shape, settings.seed, rows,
                             settings.shape.dtype, memory);
    const bool cold = result.batches == 0;
    run_batch(batch, settings, peak, cold ? std::max(repeats, 2) : repeats, result);
    sample.take(batch, range.first);
    progress.update(std::max(static_cast<double>(result.measured_users) / users,
                             watch.seconds() / settings.time_limit));
    if (watch.seconds() > settings.time_limit) break;
  }
  const double all = users / static_cast<double>(result.measured_users);
  for (double* value : {&result.pairs, &result.plan_seconds, &result.forward_seconds,
                        &result.backward_seconds, &result.floor_seconds}) {
    *value *= all;
  }
  const std::int64_t all_rows = rows == 0 ? std::ssize(histories.items) : histories.users() * rows;
  result.bytes *= static_cast<double>(all_rows) / static_cast<double>(result.rows);
  result.rows = all_rows;
  return result;
}

LayoutResult run_jagged(const Histories& histories, const RunSettings& settings,
                        const MachinePeak& peak, ResultSample& sample) {
  return run_layout(histories, split_by_rows(histories, settings.batch_rows), 0, settings, peak,
                    sample);
}

// Every history padded to the longest, in batches that fit in settings.padded_bytes.
LayoutResult run_padded(const Histories& histories, std::int64_t longest,
                        const RunSettings& settings, const MachinePeak& peak,
                        ResultSample& sample) {
  const double bytes_a_user = static_cast<double>(longest) * bytes_of_row(settings.shape);
  const auto users_a_batch =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(settings.padded_bytes / bytes_a_user));
  return run_layout(histories, split_by_users(histories.users(), users_a_batch), longest, settings,
                    peak, sample);
}

// Why not one padded history can be measured; empty when it can.
std::string why_not_padded(std::int64_t longest, const RunSettings& settings,
                           const MachinePeak& peak) {
  const double bytes = static_cast<double>(longest) * bytes_of_row(settings.shape);
  const double seconds = 2 * reference_operations(settings.shape, longest) / peak.flops;
  if (bytes <= settings.memory_bytes && seconds <= 10 * settings.time_limit) return "";
  return fmt::format(
      "one history padded to {} events takes {} and at least about {}; --max-history bounds it",
      show_count(longest), show_bytes(bytes), show_seconds(seconds));
}

void check_memory(const Histories& histories, std::int64_t longest, const RunSettings& settings) {
  const auto events = static_cast<std::int64_t>(histories.items.size());
  const std::int64_t rows = std::max(longest, std::min(events, settings.batch_rows));
  const double bytes = static_cast<double>(rows) * bytes_of_row(settings.shape);
  if (bytes <= settings.memory_bytes) return;
  throw std::runtime_error(fmt::format(
      "the tensors of a batch of {} events take {}, but {} are available; {}", show_count(rows),
      show_bytes(bytes), show_bytes(settings.memory_bytes),
      bytes_of_row(settings.shape) * static_cast<double>(longest) > settings.memory_bytes
          ? "give --max-history, or smaller --heads and --dim"
          : "give a smaller --batch-rows"));
}

// With padding behind a history, a row sees none of it when the mask ends at the row itself.
bool sees_no_padding(const Mask& mask) {
  return mask.kind == MaskKind::causal || mask.kind == MaskKind::prefix_local ||
         (mask.kind == MaskKind::window && mask.right.value == 0);
}

// The first `users` users.
ResultSample run_reference(const Histories& histories, const RunSettings& settings,
                           std::int64_t users) {
  const std::int64_t events = histories.offsets[static_cast<std::size_t>(users)];
  Progress progress("float64 reference", static_cast<double>(events));
  ResultSample sample(users);
  BatchMemory memory;
  for (std::int64_t user = 0; user < users; ++user) {
    const HistoryBatch batch(histories, {user, user + 1}, settings.shape, settings.seed, 0,
                             DType::float64, memory);
    reference_forward(batch.forward());
    reference_backward(batch.backward());
    sample.take(batch, user);
    progress.update(static_cast<double>(histories.offsets[static_cast<std::size_t>(user) + 1]));
  }
  return sample;
}

}  // namespace

RunResult run_histories(Histories histories, const RunSettings& settings, const MachinePeak& peak) {
  RunResult result;
  result.peak = peak;
  result.all_lengths = lengths_of(histories);
  result.lengths = length_statistics(result.all_lengths);
  const std::int64_t longest = result.lengths.longest;
  check_memory(histories, longest, settings);

  // In random order, those with a reference first: so every layout measures a fair choice of users,
  // and all see those that are compared.
  std::vector<std::int64_t> order = random_order(histories.users(), settings.seed);
  const std::int64_t compared = choose_reference_users(histories, settings, order);
  histories = select_users(histories, order);

  ResultSample jagged(compared);
  result.jagged = run_jagged(histories, settings, peak, jagged);
  if (settings.padded) result.why_not_padded = why_not_padded(longest, settings, peak);
  if (settings.padded && longest > 0 && result.why_not_padded.empty()) {
    ResultSample padded(compared);
    result.padded = run_padded(histories, longest, settings, peak, padded);
    if (sees_no_padding(settings.shape.mask)) result.padded_difference = padded.difference(jagged);
  }
  result.errors = run_reference(histories, settings, compared).errors_of(jagged);
  result.reference_users = compared;
  result.reference_events = histories.offsets[static_cast<std::size_t>(compared)];
  return result;
}

}  // namespace jfa::tool
