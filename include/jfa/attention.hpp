// Jagged attention, forward and backward. docs/contract.md has the exact semantics; this header
// names the arguments.
//
//   S   = scale · Q Kᵀ + bias                     one matrix per sequence and head; masked scores
//   count as −∞ P   = softmax(S) = exp(S − lse)               or, elementwise, P = act(S) with
//   masked P = 0 out = out_scale · P V
//
// Queries have Hq heads, keys and values Hkv; Hq % Hkv == 0 and query head h uses key head h / (Hq
// / Hkv).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "jfa/device.hpp"
#include "jfa/plan.hpp"
#include "jfa/tensor.hpp"

namespace jfa {

enum class Activation : std::uint8_t {
  softmax,
  silu,        // s · sigmoid(s)
  gelu,        // s · Φ(s), exact
  gelu_tanh,   // 0.5 s (1 + tanh(√(2/π) (s + 0.044715 s³)))
  relu,        // max(s, 0)
  relu2,       // max(s, 0)²
  leaky_relu,  // s > 0 ? s : leaky_slope · s
  hardswish,   // s · clamp(s + 3, 0, 6) / 6
  identity,    // s
};

// A whole number that is the same for every sequence, or one number a sequence.
struct SequenceParameter {
  std::int64_t value = 0;
  Tensor per_sequence;  // optional, [batch], int32 or int64; wins over `value`
};

enum class MaskKind : std::uint8_t { full, causal, window, hstu, prefix_local, blocks, intervals };

// Which key a causal diagonal ends at when a sequence has Lq queries and Lk keys. The position of
// query row i is p(i) = i + Lk − Lq (bottom_right: the last query sees the last key) or p(i) = i
// (top_left).
enum class Alignment : std::uint8_t { bottom_right, top_left };

// Which keys j of its sequence query row i may see, with p = p(i). Every mask is at most two key
// intervals a row.
struct Mask {
  MaskKind kind = MaskKind::full;
  Alignment alignment = Alignment::bottom_right;

  // causal: j ≤ p.   window: p − left ≤ j ≤ p + right; a negative bound is no bound.
  SequenceParameter left{-1, {}};
  SequenceParameter right{-1, {}};

  // hstu (generative-recommenders): C contextual rows in front, t targets at the end in groups,
  // history between. docs/contract.md restates the rule. Counts larger than the sequence are
  // clamped to it: t to L, then C to L − t.
  bool hstu_causal = true;
  SequenceParameter contextual{0, {}};
  SequenceParameter targets{0, {}};
  SequenceParameter target_group{1, {}};          // ≥ 1; a target sees its own group up to itself
  SequenceParameter max_attention_length{0, {}};  // W; 0: no bound
  SequenceParameter min_full_attention{
      0, {}};  // F: the last F history rows see all history, whatever W

  // prefix_local: j ≤ p and (j < prefix or j > p − local).
  SequenceParameter prefix{0, {}};
  SequenceParameter local{0, {}};

  // blocks: j / block == p / block, block ≥ 1.
  SequenceParameter block{64, {}};

  // intervals: int32 [query rows of out, 2] or [query rows of out, 4]; row i sees lo ≤ j < hi (and
  // lo2 ≤ j < hi2), j counted from the first key of its sequence; bounds are clamped to it; the
  // union counts where the two overlap.
  Tensor intervals;
};

// Additive biases; those present are summed. Tables and slopes are float32; `dense` is float32 or
// of the type of q.
struct Bias {
  Tensor dense;         // [batch | 1, Hq | 1, ≥ longest q, ≥ longest kv], any strides
  Tensor alibi_slopes;  // [Hq] or [batch, Hq]: −slope · |p(i) − j|
  Tensor position_table;  // [Hq | 1, 2n − 1]: table[h][clamp(j − p(i), −(n−1), n−1) + n − 1]
  // [Hq | 1, buckets]: table[h][min(buckets − 1, ⌊ln(max(1, |t_q − t_k|)) / time_scale⌋)], HSTU's
  // log-time buckets.
  Tensor time_table;
  Tensor q_timestamps;  // int64, one a query row: [total_q], dense [batch · rows], broadcast [rows]
  Tensor kv_timestamps;  // int64, one a key row
  double time_scale = 0.301;
};

enum class OutScale : std::uint8_t { uniform, per_sequence, per_token };

// What forward and backward have in common.
struct AttentionArgs {
  Tensor q;  // jagged [total_q, Hq, D], dense [batch, rows, Hq, D] or broadcast [rows, Hq, D]; last
             // stride 1
  Tensor k;  // likewise with Hkv heads
  Tensor v;  // like k, with Dv in place of D
  Sequences q_sequences;
  Sequences kv_sequences;
  // Optional, [batch], int32 or int64: the key sequence that each query sequence uses (many
  // candidates, one request). Absent: sequence b uses key sequence b. With broadcast keys there is
  // one key sequence and the map must be absent.
  Tensor kv_map;
  // Number of sequences; needed only when neither side tells it (both broadcast). Otherwise it must
  // be −1 or agree.
  std::int64_t batch = -1;

  Activation activation = Activation::softmax;
  double leaky_slope = 0.01;
  std::optional<double> scale;  // default: 1 / √D for softmax, 1 for elementwise activations
  OutScale out_scale_kind = OutScale::uniform;
  double out_scale = 1.0;
  Tensor out_scales;  // float32, [batch] (per_sequence) or one a query row of `out` (per_token);
                      // multiplied with out_scale

  Mask mask;
  Bias bias;
};

// What a call may use. Two calls with the same arguments give the same bits whatever `threads` and
// `sm_margin` are (backward: if deterministic).
//
// On a device other than the CPU every tensor is memory of that device, values are read by kernels
// alone, and a call returns when its work is in the stream. Shapes, types, strides and addresses
// are checked; offsets and other values are clamped to the tensors. With JFA_CHECK=1 in the
// environment values are copied to the host and checked as on the CPU, but in calls that a CUDA
// graph captures.
struct Execution {
  Device device;
  int threads = 0;  // CPU: 0 = all cores
  // Scratch that the call may use in place of allocating: at least workspace_bytes(). Contents are
  // irrelevant before and after. On devices: device memory, a multiple of 256 bytes, not shared by
  // calls that may run at the same time, and required when a CUDA graph captures the call.
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  // CPU: threads of the host program in place of the library's own (oneTBB), so that two pools do
  // not fight for the cores. Calls body(state) on up to `threads` threads at once, one of them the
  // caller's, and returns when all calls have returned; `body` does not throw.
  void (*run_on_threads)(int threads, void (*body)(void* state), void* state) = nullptr;
  // Also keep NaN and Inf of other sequences' valid rows out of a sequence's result, at the price
  // of no packing.
  bool strict_isolation = false;

  // Devices other than the CPU:
  void* stream = nullptr;  // of the device's driver (a cudaStream_t); null: the default stream
  int sm_margin = 0;       // multiprocessors left to others
  // Where make_plan puts the plan in place of allocating: at least plan_bytes() of device memory, a
  // multiple of 256 bytes, kept as long as calls with the plan may run.
  void* plan_memory = nullptr;
  std::size_t plan_memory_bytes = 0;
};

struct ForwardArgs : AttentionArgs {
  Tensor out;  // jagged [total_q, Hq, Dv]; dense and broadcast queries: [batch, rows, Hq, Dv]; type
               // of q. Every element is written.
  Tensor lse;  // optional, softmax only: float32 [Hq, query rows of out], natural log; −∞ for rows
               // with no visible key
};

struct BackwardArgs : AttentionArgs {
  Tensor out;    // of the forward call; softmax only
  Tensor lse;    // of the forward call; softmax only
  Tensor d_out;  // shape of out, any strides (0 too)
  // Gradients, each optional, shapes and types of their inputs; sums over sequences (broadcast,
  // kv_map) are float32 inside.
  Tensor d_q;
  Tensor d_k;
  Tensor d_v;
  // Bias gradients, each optional, float32, shapes of the biases.
  Tensor d_bias_dense;
  Tensor d_alibi_slopes;
  Tensor d_position_table;
  Tensor d_time_table;
  bool deterministic =
      false;  // bitwise reproducible; without it the order of float32 sums may depend on timing
};

// Computes `out` and, when present, `lse`. `plan` is made by make_plan for the same arguments and
// may be reused by every layer and by the backward pass; without one the call makes its own. Throws
// InvalidArgument, InvalidType or Unsupported before any work; nothing is written then.
void attention_forward(const ForwardArgs& args, const Execution& execution = {},
                       const Plan* plan = nullptr);

// Computes the gradients that are present. Throws as attention_forward.
void attention_backward(const BackwardArgs& args, const Execution& execution = {},
                        const Plan* plan = nullptr);

// Bytes of scratch that a call with this plan needs (64 MiB at most on the CPU, however long the
// sequences). On other devices `plan` may be invalid: the bytes then hold the plan that the call
// makes for itself.
std::size_t forward_workspace_bytes(const ForwardArgs& args, const Execution& execution,
                                    const Plan& plan);
std::size_t backward_workspace_bytes(const BackwardArgs& args, const Execution& execution,
                                     const Plan& plan);

// The same semantics in plain float64 loops over every (row, key) pair: the definition that every
// engine is compared with. Inputs have any floating type; out, lse and gradients must be float64
// tensors. O(Lq · Lk · D) a head, one thread.
void reference_forward(const ForwardArgs& args);
void reference_backward(const BackwardArgs& args);

}  // namespace jfa
