// The tasks that are compiled once per instruction set; run_* picks the best one at run time.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/engine.hpp"
#include "plan/plan.h"

namespace jfa::cpu {

struct KeyRange64 {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

void run_forward_tile(const Context& context, const ForwardArgs& args, const kernels::Tile& tile,
                      std::int64_t head, const ForwardScratch& scratch);

// One task of the backward pass. Each gradient element is summed by one task in a fixed order, or
// in SharedSums of a slot that runs its tasks one after the other.
struct BackwardTask {
  enum class Kind : std::uint8_t {
    keys,        // d_k, d_v, and what else is asked for, of the keys [key_begin, key_end)
    queries,     // d_q of the rows [row_begin, row_end) in `head`
    few_rows,    // as `keys`, of one sequence with few query rows, in `heads` key heads
    dense_bias,  // a tile of the dense bias gradient that is summed over the batch or the heads
  };
  Kind kind = Kind::keys;
  std::int64_t kv_head = 0;
  std::int64_t head = 0;          // queries; dense_bias: first of head … head + heads − 1
  std::int64_t heads = 1;         // dense_bias, few_rows: from kv_head on
  std::int64_t member_begin = 0;  // of PlanData::members
  std::int64_t member_end = 0;
  std::int64_t key_begin = 0;
  std::int64_t key_end = 0;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  bool with_queries = false;  // keys: also d_q, complete because the task holds all keys
  bool with_keys = true;      // few_rows: d_k and d_v
};

// Gradients that many sequences add to, for the heads of one key head; null where not shared.
struct SharedSums {
  float* d_q = nullptr;              // [group][rows][q_stride], broadcast queries
  float* d_k = nullptr;              // [keys][q_stride], broadcast keys
  float* d_v = nullptr;              // [keys][v_stride]
  double* slopes = nullptr;          // [group], or [batch][group]
  double* position_table = nullptr;  // [group][2n − 1]
  double* time_table = nullptr;      // [group][buckets]
};

struct BackwardContext : Context {
  const BackwardArgs& backward;
  bool direct_d_q = false;     // d_q is summed in place: float32 and whole vectors
  bool dense_in_keys = false;  // every element of d_bias_dense belongs to one (sequence, head)
};

// Writes factor · from[i·stride …] to the rows [first, first + count); `from` holds whole vectors.
void run_store_rows(const Rows& rows, std::int64_t first, std::int64_t count, const float* from,
                    std::int64_t stride, float factor);

void run_backward_task(const BackwardContext& context, const BackwardTask& task,
                       const SharedSums& shared, const BackwardScratch& scratch);

}  // namespace jfa::cpu
