// Cuts a backward call into tasks. Usually one task holds a key sequence in one key head and
// computes all three gradients with five products a block. Two things call for another cut:
// - a gradient that many sequences add to (broadcast sides, bias tables): the sequences are dealt
// to a
//   number of slots that depends on sizes alone; a slot runs in order, slots are summed in order;
// - a sequence that is too long for one thread or for the sums of d_q: tasks of key blocks (d_k,
// d_v)
//   and of query rows (d_q) compute the scores twice, 7 products in place of 5. Every sum has the
//   same terms in the same order either way, so the bits do not depend on the choice.
#include "cpu/backward_schedule.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "cpu/parallel.hpp"
#include "cpu/scratch.hpp"

namespace jfa::cpu {

using detail::Call;
using detail::KeyGroup;
using detail::PlanData;
using detail::SequenceView;

SharedSums SharedSizes::carve(void* block, std::size_t* bytes) const {
  Carver carver(block);
  SharedSums sums;
  if (d_q > 0) sums.d_q = carver.take<float>(d_q);
  if (d_k > 0) sums.d_k = carver.take<float>(d_k);
  if (d_v > 0) sums.d_v = carver.take<float>(d_v);
  if (slopes > 0) sums.slopes = carver.take<double>(slopes);
  if (position_table > 0) sums.position_table = carver.take<double>(position_table);
  if (time_table > 0) sums.time_table = carver.take<double>(time_table);
  if (bytes != nullptr) *bytes = carver.used();
  return sums;
}

namespace {

constexpr std::size_t kMostShared = std::size_t{24} << 20;    // bytes of all slots together
constexpr std::int64_t kMostSlots = 32;                       // a key head
constexpr std::size_t kMostQuerySums = std::size_t{4} << 20;  // bytes of d_q sums a worker
constexpr double kSplitCost = 1.4;                            // 7 products in place of 5

class Scheduler {
 public:
  Scheduler(const BackwardArgs& args, const Call& call, const PlanData& plan,
            const Execution& execution)
      : args_(args), call_(call), plan_(plan), threads_(thread_count(execution.threads)) {}

  BackwardSchedule run() {
    result_.blocking = backward_blocking(call_);
    group_ = call_.heads / call_.kv_heads;
    choose_sums();
    size_query_sums();
    if (plan_.members.empty()) {
      result_.slots = 0;
    } else {
      const bool keys = args_.d_k.present() || args_.d_v.present() || args_.d_q.present() ||
                        result_.shared.any() || result_.dense_in_keys;
      if (keys && result_.shared.any()) add_slots();
      if (keys && !result_.shared.any()) add_independent();
      if (query_tasks_for_all_) add_shared_queries();
      if (args_.d_bias_dense.present() && !result_.dense_in_keys) add_dense_bias();
    }
    std::stable_sort(result_.items.begin(), result_.items.end(),
                     [](const auto& a, const auto& b) { return a.work > b.work; });
    finish_sizes();
    return std::move(result_);
  }

 private:
  const SequenceView& member(std::int64_t index) const {
    return call_
        .sequences[static_cast<std::size_t>(plan_.members[static_cast<std::size_t>(index)])];
  }

  // Which gradients are shared sums, and how many slots fit.
  void choose_sums() {
    SharedSizes& sizes = result_.shared;
    const std::int64_t q_stride = padded_stride(call_.dim);
    const std::int64_t v_stride = padded_stride(call_.value_dim);
    const auto fits = [&](std::int64_t floats) {
      return static_cast<std::size_t>(floats * call_.kv_heads) * sizeof(float) <= kMostShared / 2;
    };
    if (args_.d_q.present() && args_.q_sequences.layout == Layout::broadcast) {
      const std::int64_t floats = group_ * args_.q.shape[0] * q_stride;
      query_tasks_for_all_ = !fits(floats);
      if (!query_tasks_for_all_) sizes.d_q = floats;
    }
    if (args_.kv_sequences.layout == Layout::broadcast) {
      const std::int64_t keys = args_.k.shape[0];
      shared_keys_ = fits(keys * (q_stride + v_stride));
      if (shared_keys_ && args_.d_k.present()) sizes.d_k = keys * q_stride;
      if (shared_keys_ && args_.d_v.present()) sizes.d_v = keys * v_stride;
    }
    if (args_.d_alibi_slopes.present()) {
      sizes.slopes = group_ * (args_.d_alibi_slopes.rank == 2 ? call_.batch : 1);
    }
    if (args_.d_position_table.present()) {
      sizes.position_table = group_ * args_.bias.position_table.shape[1];
    }
    if (args_.d_time_table.present()) sizes.time_table = group_ * args_.bias.time_table.shape[1];
    if (const Tensor& dense = args_.d_bias_dense; dense.present()) {
      result_.dense_in_keys =
          (dense.shape[0] != 1 || call_.batch == 1) && (dense.shape[1] != 1 || call_.heads == 1);
    }
    if (!sizes.any()) return;
    sizes.carve(nullptr, &result_.shared_bytes);
    const std::size_t in_all_heads =
        result_.shared_bytes * static_cast<std::size_t>(call_.kv_heads);
    const auto fit =
        static_cast<std::int64_t>(kMostShared / std::max<std::size_t>(1, in_all_heads));
    const auto useful = std::max<std::int64_t>(
        1, std::min<std::int64_t>(kMostSlots, static_cast<std::int64_t>(plan_.members.size())));
    result_.slots = std::clamp<std::int64_t>(fit, 1, useful) * call_.kv_heads;
  }

  // How many rows of d_q a worker can hold.
  void size_query_sums() {
    result_.direct_d_q = args_.d_q.present() && args_.q_sequences.layout != Layout::broadcast &&
                         args_.d_q.dtype == DType::float32 && call_.dim % 16 == 0;
    const std::size_t base =
        BackwardScratch(call_, result_.blocking, result_.blocking.rows, nullptr).bytes;
    const std::size_t common = result_.shared_bytes * static_cast<std::size_t>(result_.slots);
    const std::size_t share = (kMostScratch - common) / static_cast<std::size_t>(threads_);
    const std::size_t most = std::min(kMostQuerySums, share > base ? share - base : 0);
    most_dq_rows_ = static_cast<std::int64_t>(
        most / (static_cast<std::size_t>(padded_stride(call_.dim)) * sizeof(float)));
    result_.dq_rows = result_.blocking.rows;
    if (args_.d_bias_dense.present() && !result_.dense_in_keys) {
      const std::int64_t floats = result_.blocking.rows * padded_stride(result_.blocking.keys);
      result_.dq_rows = std::max(
          result_.dq_rows, (floats + padded_stride(call_.dim) - 1) / padded_stride(call_.dim));
    }
  }

  // Whether a task that holds these members and all their keys can also compute d_q.
  bool can_hold_queries(std::int64_t first, std::int64_t end) {
    if (!args_.d_q.present() || query_tasks_for_all_) return false;
    if (result_.direct_d_q || result_.shared.d_q > 0) return true;
    if (member(first).k_length <= result_.blocking.keys) return true;
    std::int64_t rows = 0;
    for (std::int64_t m = first; m < end; ++m) rows += member(m).q_length * group_;
    if (rows > most_dq_rows_) return false;
    result_.dq_rows = std::max(result_.dq_rows, rows);
    return true;
  }

  void add_item(std::int64_t slot, std::int64_t work) {
    const auto end = static_cast<std::int64_t>(result_.tasks.size());
    if (end > item_begin_) result_.items.push_back({item_begin_, end - item_begin_, slot, work});
    item_begin_ = end;
  }

  BackwardTask keys_task(std::int64_t kv_head, std::int64_t first, std::int64_t end,
                         bool with_queries) const {
    BackwardTask task;
    task.kv_head = kv_head;
    task.member_begin = first;
    task.member_end = end;
    task.key_end = member(first).k_length;
    task.with_queries = with_queries;
    return task;
  }

  std::int64_t member_work(std::int64_t m) const {
    return 1 + member(m).q_length * member(m).k_length;
  }

  // d_q of members [first, end), which share their query rows if there are several: one task a tile
  // of rows and head.
  void add_queries(std::int64_t first, std::int64_t end, std::int64_t rows, std::int64_t head_begin,
                   std::int64_t head_end) {
    std::int64_t work = 0;
    for (std::int64_t m = first; m < end; ++m) work += member(m).k_length;
    for (std::int64_t head = head_begin; head < head_end; ++head) {
      for (std::int64_t row = 0; row < rows; row += result_.blocking.rows) {
        BackwardTask task;
        task.kind = BackwardTask::Kind::queries;
        task.head = head;
        task.member_begin = first;
        task.member_end = end;
        task.row_begin = row;
        task.row_end = std::min(rows, row + result_.blocking.rows);
        result_.tasks.push_back(task);
        add_item(-1, work * (task.row_end - row) * 3);
      }
    }
  }

  void add_queries_of_members(std::int64_t first, std::int64_t end, std::int64_t kv_head) {
    if (!args_.d_q.present() || query_tasks_for_all_) return;
    for (std::int64_t m = first; m < end; ++m) {
      add_queries(m, m + 1, member(m).q_length, kv_head * group_, (kv_head + 1) * group_);
    }
  }

  void add_shared_queries() {
    add_queries(0, static_cast<std::int64_t>(plan_.members.size()), args_.q.shape[0], 0,
                call_.heads);
  }

  // Deals the sequences, in batch order, to slots of about equal work.
  void add_slots() {
    const std::int64_t slots = result_.slots / call_.kv_heads;
    const auto count = static_cast<std::int64_t>(plan_.members.size());
    std::int64_t total = 0;
    for (std::int64_t m = 0; m < count; ++m) total += member_work(m);
    struct Unit {
      std::int64_t slot, first, end, work;
    };
    std::vector<Unit> units;
    std::int64_t done = 0;
    for (std::int64_t m = 0; m < count;) {
      std::int64_t end = m;
      std::int64_t work = 0;
      const std::int64_t slot =
          std::min(slots - 1, done * slots / std::max<std::int64_t>(1, total));
      do {  // one key sequence stays together unless its gradient is a shared sum
        work += member_work(end++);
      } while (end < count && member(end).kv_index == member(m).kv_index &&
               (!shared_keys_ || (done + work) * slots / total == slot));
      units.push_back({slot, m, end, work});
      done += work;
      m = end;
    }
    for (std::int64_t kv_head = 0; kv_head < call_.kv_heads; ++kv_head) {
      std::vector<Unit> without_queries;
      for (std::size_t u = 0; u < units.size();) {
        const std::int64_t slot = units[u].slot;
        std::int64_t work = 0;
        for (; u < units.size() && units[u].slot == slot; ++u) {
          work += units[u].work;
          if (takes_few_rows(units[u].first, units[u].end)) {
            result_.tasks.push_back(few_rows_task(kv_head, 1, units[u].first));
            continue;
          }
          const bool held = can_hold_queries(units[u].first, units[u].end);
          result_.tasks.push_back(keys_task(kv_head, units[u].first, units[u].end, held));
          if (!held) without_queries.push_back(units[u]);
        }
        add_item(kv_head * slots + slot, work * group_ * 5);
      }
      for (const Unit& unit : without_queries) {
        add_queries_of_members(unit.first, unit.end, kv_head);
      }
    }
  }

  // Longest time any thread works when whole groups are dealt out longest first.
  double makespan(const std::vector<const KeyGroup*>& groups) const {
    std::priority_queue<double, std::vector<double>, std::greater<>> busy;
    for (int t = 0; t < threads_; ++t) busy.push(0);
    double longest = 0;
    for (const KeyGroup* group : groups) {
      for (std::int64_t h = 0; h < call_.kv_heads; ++h) {
        const double end = busy.top() + static_cast<double>(group->work);
        busy.pop();
        busy.push(end);
        longest = std::max(longest, end);
      }
    }
    return longest;
  }

  // Work from which on a group is split; the largest number when none needs to be.
  double split_from() const {
    const auto tasks = static_cast<std::int64_t>(plan_.groups.size()) * call_.kv_heads;
    constexpr double kNever = 1e300;
    if (threads_ == 1 || tasks > 16 * std::int64_t{threads_}) return kNever;
    double total = 0;
    std::vector<const KeyGroup*> groups;
    for (const KeyGroup& group : plan_.groups) {
      groups.push_back(&group);
      total += static_cast<double>(group.work * call_.kv_heads);
    }
    const double even = total / threads_;
    return makespan(groups) > kSplitCost * even ? even / 4 : kNever;
  }

  // One sequence with few query rows for its keys: computed in lanes, whatever the thread count.
  bool takes_few_rows(std::int64_t first, std::int64_t end) const {
    constexpr std::int64_t kMostRows = 16;
    const std::int64_t rows = member(first).q_length;
    return end - first == 1 && rows <= kMostRows && rows * group_ <= kMostLanes &&
           !scores_adjusted(args_, call_) && !query_tasks_for_all_ &&
           args_.kv_sequences.layout != Layout::broadcast;
  }

  BackwardTask few_rows_task(std::int64_t kv_head, std::int64_t heads, std::int64_t member) const {
    BackwardTask task = keys_task(kv_head, member, member + 1, args_.d_q.present());
    task.kind = BackwardTask::Kind::few_rows;
    task.heads = heads;
    return task;
  }

  void add_few_rows(const KeyGroup& group, bool one_task) {
    const bool many = static_cast<std::int64_t>(plan_.groups.size()) >= 4 * std::int64_t{threads_};
    const std::int64_t step = one_task && many ? call_.kv_heads : 1;
    if (!one_task) flush_small_items();
    for (std::int64_t kv_head = 0; kv_head < call_.kv_heads; kv_head += step) {
      BackwardTask task = few_rows_task(kv_head, step, group.first);
      if (one_task) {
        result_.tasks.push_back(task);
        add_small_item(group.work * group_ * 5 * step);
        continue;
      }
      if (task.with_queries) {
        task.with_keys = false;
        result_.tasks.push_back(task);
        add_item(-1, group.work * group_ * 3);
      }
      task.with_queries = false;
      task.with_keys = true;
      for (std::int64_t key = 0; key < group.k_length; key += result_.blocking.keys) {
        task.key_begin = key;
        task.key_end = std::min(group.k_length, key + result_.blocking.keys);
        result_.tasks.push_back(task);
        add_item(-1, group.work * group_ * 4 * (task.key_end - key) / group.k_length);
      }
    }
  }

  void add_independent() {
    const double split = split_from();
    for (const KeyGroup& group : plan_.groups) {
      const std::int64_t first = group.first;
      const std::int64_t end = group.first + group.count;
      // Broadcast keys whose sums would be too large also end here.
      const bool one_task = static_cast<double>(group.work) < split;
      if (takes_few_rows(first, end)) {
        add_few_rows(group, one_task);
        continue;
      }
      for (std::int64_t kv_head = 0; kv_head < call_.kv_heads; ++kv_head) {
        if (one_task) {
          const bool held = can_hold_queries(first, end);
          result_.tasks.push_back(keys_task(kv_head, first, end, held));
          add_small_item(group.work * group_ * 5);
          if (!held) add_queries_of_members(first, end, kv_head);
          continue;
        }
        flush_small_items();
        for (std::int64_t key = 0; key < group.k_length; key += result_.blocking.keys) {
          BackwardTask task = keys_task(kv_head, first, end, false);
          task.key_begin = key;
          task.key_end = std::min(group.k_length, key + result_.blocking.keys);
          result_.tasks.push_back(task);
          add_item(-1, group.work * group_ * 4 * (task.key_end - key) / group.k_length);
        }
        add_queries_of_members(first, end, kv_head);
      }
    }
    flush_small_items();
  }

  // Short sequences are run several at a time, so that taking a task costs nothing.
  void add_small_item(std::int64_t work) {
    constexpr std::int64_t kSmall = 1 << 17;
    small_work_ += work;
    if (small_work_ >= kSmall) flush_small_items();
  }
  void flush_small_items() {
    add_item(-1, small_work_);
    small_work_ = 0;
  }

  void add_dense_bias() {
    const Tensor& dense = args_.d_bias_dense;
    std::int64_t longest_q = 0;
    std::int64_t longest_k = 0;
    for (std::int64_t m = 0; m < static_cast<std::int64_t>(plan_.members.size()); ++m) {
      longest_q = std::max(longest_q, member(m).q_length);
      longest_k = std::max(longest_k, member(m).k_length);
    }
    const auto count = static_cast<std::int64_t>(plan_.members.size());
    const std::int64_t step = dense.shape[0] == 1 ? count : 1;
    const std::int64_t heads = dense.shape[1] == 1 ? call_.heads : 1;
    for (std::int64_t m = 0; m < count; m += step) {
      const std::int64_t rows = step == 1 ? member(m).q_length : longest_q;
      const std::int64_t keys = step == 1 ? member(m).k_length : longest_k;
      for (std::int64_t head = 0; head < call_.heads; head += heads) {
        for (std::int64_t row = 0; row < rows; row += result_.blocking.rows) {
          for (std::int64_t key = 0; key < keys; key += result_.blocking.keys) {
            BackwardTask task;
            task.kind = BackwardTask::Kind::dense_bias;
            task.head = head;
            task.heads = heads;
            task.member_begin = m;
            task.member_end = m + step;
            task.row_begin = row;
            task.row_end = std::min(rows, row + result_.blocking.rows);
            task.key_begin = key;
            task.key_end = std::min(keys, key + result_.blocking.keys);
            result_.tasks.push_back(task);
            add_item(-1, step * heads * (task.row_end - row) * (task.key_end - key) * 2);
          }
        }
      }
    }
  }

  void finish_sizes() {
    result_.scratch_bytes =
        BackwardScratch(call_, result_.blocking, result_.dq_rows, nullptr).bytes;
    const std::size_t common = result_.shared_bytes * static_cast<std::size_t>(result_.slots);
    result_.workers =
        affordable_workers(static_cast<int>(std::clamp<std::int64_t>(
                               static_cast<std::int64_t>(result_.items.size()), 1, threads_)),
                           result_.scratch_bytes, common + 64);
  }

  const BackwardArgs& args_;
  const Call& call_;
  const PlanData& plan_;
  int threads_ = 1;
  std::int64_t group_ = 1;
  std::int64_t most_dq_rows_ = 0;
  std::int64_t item_begin_ = 0;
  std::int64_t small_work_ = 0;
  bool shared_keys_ = false;
  bool query_tasks_for_all_ = false;
  BackwardSchedule result_;
};

}  // namespace

BackwardSchedule schedule_backward(const BackwardArgs& args, const Call& call, const PlanData& plan,
                                   const Execution& execution) {
  return Scheduler(args, call, plan, execution).run();
}

}  // namespace jfa::cpu
