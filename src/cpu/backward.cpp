// Runs a backward call: zeros where no task writes, the tasks, then the sums over slots.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "api/scalar.hpp"
#include "cpu/backward_schedule.hpp"
#include "cpu/engine.hpp"
#include "cpu/parallel.hpp"
#include "cpu/scratch.hpp"
#include "cpu/tasks.hpp"
#include "cpu/zero_rows.hpp"

namespace jfa::cpu {
namespace {

void write_rows_without_work(const BackwardArgs& args, const detail::Call& call,
                             const Execution& execution) {
  std::vector<RowSpan> q_rows;
  std::vector<RowSpan> k_rows;
  const auto index_of = [](Layout layout, std::int64_t index) {
    return layout == Layout::dense ? index : 0;
  };
  for (const detail::SequenceView& sequence : call.sequences) {
    if (sequence.q_length == 0 || sequence.k_length == 0) continue;
    q_rows.push_back(
        {index_of(args.q_sequences.layout, sequence.index), sequence.q_first, sequence.q_length});
    k_rows.push_back({index_of(args.kv_sequences.layout, sequence.kv_index), sequence.k_first,
                      sequence.k_length});
  }
  if (args.d_q.present()) {
    zero_rows_outside(args.d_q, args.q_sequences.layout, std::move(q_rows), execution);
  }
  if (args.d_k.present()) zero_rows_outside(args.d_k, args.kv_sequences.layout, k_rows, execution);
  if (args.d_v.present()) zero_rows_outside(args.d_v, args.kv_sequences.layout, k_rows, execution);
  if (args.d_bias_dense.present()) zero_tensor(args.d_bias_dense, execution);
  if (args.d_alibi_slopes.present()) zero_tensor(args.d_alibi_slopes, execution);
  if (args.d_position_table.present()) zero_tensor(args.d_position_table, execution);
  if (args.d_time_table.present()) zero_tensor(args.d_time_table, execution);
}

// Adds up what the slots hold, always in the order of the slots.
class SlotSums {
 public:
  SlotSums(const BackwardArgs& args, const detail::Call& call, const BackwardSchedule& schedule,
           std::vector<SharedSums> slots)
      : args_(args), call_(call), schedule_(schedule), slots_(std::move(slots)) {}

  void store() {
    const std::int64_t group = call_.heads / call_.kv_heads;
    const std::int64_t q_stride = padded_stride(call_.dim);
    const std::int64_t v_stride = padded_stride(call_.value_dim);
    for (std::int64_t kv_head = 0; kv_head < call_.kv_heads; ++kv_head) {
      if (schedule_.shared.d_q > 0) {
        const std::int64_t rows = args_.q.shape[0];
        for (std::int64_t g = 0; g < group; ++g) {
          store_rows(args_.d_q, kv_head * group + g, kv_head, &SharedSums::d_q, g * rows * q_stride,
                     rows, q_stride);
        }
      }
      if (schedule_.shared.d_k > 0) {
        store_rows(args_.d_k, kv_head, kv_head, &SharedSums::d_k, 0, args_.k.shape[0], q_stride);
      }
      if (schedule_.shared.d_v > 0) {
        store_rows(args_.d_v, kv_head, kv_head, &SharedSums::d_v, 0, args_.v.shape[0], v_stride);
      }
    }
    store_slopes(group);
    store_table(args_.d_position_table, &SharedSums::position_table, group);
    store_table(args_.d_time_table, &SharedSums::time_table, group);
  }

 private:
  std::int64_t per_head() const { return schedule_.slots / call_.kv_heads; }

  // Rows of a broadcast gradient in one head; sums into the first slot.
  void store_rows(const Tensor& gradient, std::int64_t head, std::int64_t kv_head,
                  float* SharedSums::*member, std::int64_t offset, std::int64_t rows,
                  std::int64_t stride) {
    float* sum = slots_[static_cast<std::size_t>(kv_head * per_head())].*member + offset;
    for (std::int64_t slot = 1; slot < per_head(); ++slot) {
      const float* other =
          slots_[static_cast<std::size_t>(kv_head * per_head() + slot)].*member + offset;
      for (std::int64_t i = 0; i < rows * stride; ++i) sum[i] += other[i];
    }
    const Rows to = rows_in_head(gradient, Layout::broadcast, 0, 0, head);
    run_store_rows(to, 0, rows, sum, stride, 1);
  }

  double sum_at(double* SharedSums::*member, std::int64_t kv_head, std::int64_t index) const {
    double sum = 0;
    for (std::int64_t slot = 0; slot < per_head(); ++slot) {
      sum += (slots_[static_cast<std::size_t>(kv_head * per_head() + slot)].*member)[index];
    }
    return sum;
  }

  void store_slopes(std::int64_t group) const {
    const Tensor& gradient = args_.d_alibi_slopes;
    if (!gradient.present()) return;
    const std::int64_t batch = gradient.rank == 2 ? gradient.shape[0] : 1;
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t head = 0; head < call_.heads; ++head) {
        const std::int64_t offset = gradient.rank == 2
                                        ? b * gradient.strides[0] + head * gradient.strides[1]
                                        : head * gradient.strides[0];
        detail::store_at(gradient, offset,
                         sum_at(&SharedSums::slopes, head / group, b * group + head % group));
      }
    }
  }

  void store_table(const Tensor& gradient, double* SharedSums::*member, std::int64_t group) const {
    if (!gradient.present()) return;
    const std::int64_t entries = gradient.shape[1];
    const bool one_row = gradient.shape[0] == 1;
    for (std::int64_t row = 0; row < gradient.shape[0]; ++row) {
      for (std::int64_t entry = 0; entry < entries; ++entry) {
        double sum = 0;
        for (std::int64_t head = one_row ? 0 : row; head < (one_row ? call_.heads : row + 1);
             ++head) {
          sum += sum_at(member, head / group, head % group * entries + entry);
        }
        detail::store_at(gradient, row * gradient.strides[0] + entry * gradient.strides[1], sum);
      }
    }
  }

  const BackwardArgs& args_;
  const detail::Call& call_;
  const BackwardSchedule& schedule_;
  std::vector<SharedSums> slots_;
};

}  // namespace

std::size_t backward_scratch_bytes(const BackwardArgs& args, const detail::Call& call,
                                   const detail::PlanData& plan, const Execution& execution) {
  return schedule_backward(args, call, plan, execution).bytes();
}

void backward(const BackwardArgs& args, const detail::Call& call, const detail::PlanData& plan,
              const Execution& execution) {
  write_rows_without_work(args, call, execution);
  const BackwardSchedule schedule = schedule_backward(args, call, plan, execution);
  if (schedule.items.empty()) return;

  const Workspace workspace(execution, schedule.bytes() - 64);  // 64 to align
  const std::size_t shared_bytes = schedule.shared_bytes * static_cast<std::size_t>(schedule.slots);
  std::memset(workspace.at(0), 0, shared_bytes);
  std::vector<SharedSums> slots;
  for (std::int64_t slot = 0; slot < schedule.slots; ++slot) {
    slots.push_back(schedule.shared.carve(
        workspace.at(schedule.shared_bytes * static_cast<std::size_t>(slot)), nullptr));
  }
  BackwardContext context{make_context(args, call, plan), args, schedule.direct_d_q,
                          schedule.dense_in_keys};
  run_tasks(
      execution, static_cast<std::int64_t>(schedule.items.size()), schedule.workers,
      [&](std::int64_t index, int worker) {
        const BackwardItem& item = schedule.items[static_cast<std::size_t>(index)];
        const BackwardScratch scratch(
            call, schedule.blocking, schedule.dq_rows,
            workspace.at(shared_bytes + schedule.scratch_bytes * static_cast<std::size_t>(worker)));
        static const SharedSums kNone;
        const SharedSums& shared =
            item.slot < 0 ? kNone : slots[static_cast<std::size_t>(item.slot)];
        for (std::int64_t t = 0; t < item.tasks; ++t) {
          run_backward_task(context, schedule.tasks[static_cast<std::size_t>(item.first_task + t)],
                            shared, scratch);
        }
      });
  if (schedule.slots > 0) SlotSums(args, call, schedule, std::move(slots)).store();
}

}  // namespace jfa::cpu
