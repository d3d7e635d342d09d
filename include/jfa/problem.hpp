// One-line problems: a complete, reproducible attention problem in one line of text.
// docs/notation.md has the grammar.
//
//   fwd bf16 d=128 h=4 mask=full q=17,0,513
//   bwd fp16 d=64 dv=128 h=8 hkv=2 mask=causal q=lognormal:batch=1152,clip=1000,seed=1
//   fwd bf16 d=128 h=4 act=silu mask=hstu:contextual=2,targets=20,window=0 q=@lengths.txt kv=same
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jfa/attention.hpp"
#include "jfa/device.hpp"

namespace jfa {

enum class Direction : std::uint8_t { forward, backward };

// The lengths of the sequences of one side, as written: a list ("17,0,513"),
// "uniform:batch=,max=,fill=,seed=", "lognormal:batch=,clip=,sigma=,scale=,loc=,min=,seed=",
// "zipf:batch=,clip=,a=,seed=", or "@file" (one length a line). A list entry may be repeated:
// "1024x16". Deterministic on every platform.
struct LengthSpec {
  std::string text;

  bool operator==(const LengthSpec&) const = default;
};

// Throws InvalidArgument with the position in the text, or when a file cannot be read.
std::vector<std::int64_t> generate_lengths(const LengthSpec& spec);

// One number for every sequence ("3"), or several that repeat over the batch ("3/0/7").
using SequenceValues = std::vector<std::int64_t>;

// q= and kv=: "17,0,513" (jagged), "dense:batch=4,rows=100", "broadcast:rows=8", "same" (kv only).
struct SequenceSpec {
  Layout layout = Layout::jagged;
  LengthSpec lengths;      // jagged
  std::int64_t batch = 1;  // dense
  std::int64_t rows = 1;   // dense and broadcast

  bool operator==(const SequenceSpec&) const = default;
};

// mask= and align=.
struct MaskSpec {
  MaskKind kind = MaskKind::full;
  Alignment alignment = Alignment::bottom_right;
  SequenceValues left = {-1};  // window
  SequenceValues right = {-1};
  bool hstu_causal = true;
  SequenceValues contextual = {0};
  SequenceValues targets = {0};
  SequenceValues target_group = {1};
  SequenceValues max_attention_length = {0};
  SequenceValues min_full_attention = {0};
  SequenceValues prefix = {0};
  SequenceValues local = {0};
  SequenceValues block = {64};
  std::int64_t intervals = 2;  // intervals a row, 1 or 2; their bounds are drawn

  bool operator==(const MaskSpec&) const = default;
};

// bias=: any of dense, alibi, position, time, joined by +. `each` is one slice for every head (and
// sequence), otherwise they share one.
struct BiasSpec {
  bool dense = false;
  bool dense_each_sequence = true;
  bool dense_each_head = true;
  bool dense_float32 = true;  // else of the type of q
  bool alibi = false;
  bool alibi_each_sequence = false;
  std::int64_t position = 0;  // n: the table holds distances −(n−1) … n−1; 0: none
  bool position_each_head = true;
  std::int64_t time = 0;  // buckets; 0: none
  bool time_each_head = true;
  double time_scale = 0.301;

  bool operator==(const BiasSpec&) const = default;
};

// How the tensors lie in memory: the cases that implementations tend to get wrong. Memory that no
// sequence owns holds NaN.
struct MemorySpec {
  std::int64_t offset0 = 0;    // rows before the first sequence (jagged)
  std::int64_t slack = 0;      // rows after the last sequence (jagged)
  SequenceValues holes = {0};  // unused rows at the end of each sequence; needs used_lengths
  std::int64_t head_gap = 0;   // elements between heads
  std::int64_t row_gap = 0;    // elements between rows
  std::int64_t misalign = 0;   // elements by which base addresses miss a multiple of 64 bytes
  bool fused = false;          // q, k and v are views of one buffer (k and v, if kv is not same)
  bool int64_offsets = false;  // else int32
  bool expanded_gradient = false;  // every stride of d_out is 0

  bool operator==(const MemorySpec&) const = default;
};

// Gradients that a backward problem asks for.
struct GradientSpec {
  bool q = true;
  bool k = true;
  bool v = true;
  bool bias = true;

  bool operator==(const GradientSpec&) const = default;
};

// What a problem says; defaults are the notation's defaults.
struct Problem {
  Direction direction = Direction::forward;
  DType dtype = DType::bfloat16;  // float32, bfloat16 or float16
  std::int64_t dim = 64;          // d=
  std::int64_t value_dim = 64;    // dv=, default d
  std::int64_t heads = 1;         // h=
  std::int64_t kv_heads = 1;      // hkv=, default h

  SequenceSpec q;
  std::optional<SequenceSpec> kv;    // absent: same
  std::vector<std::int64_t> kv_map;  // kv_map=0,0,1 (empty: none)
  std::int64_t kv_share = 0;         // kv_map=share:n, query sequence b uses b / n (0: none)
  std::int64_t batch = -1;           // needed when both sides are broadcast

  Activation activation = Activation::softmax;  // act=
  double leaky_slope = 0.01;                    // slope=
  std::optional<double> scale;
  double out_scale = 1.0;
  OutScale out_scales = OutScale::uniform;  // out_scales=sequence or token; values are drawn
  MaskSpec mask;
  BiasSpec bias;
  MemorySpec memory;
  GradientSpec gradients;
  bool deterministic = false;

  double magnitude = 1.0;  // standard deviation of scale · q · k
  double shift = 0.0;      // added to every scale · q · k
  std::uint64_t seed = 1;

  bool operator==(const Problem&) const = default;
};

// Throws InvalidArgument that shows the line, marks the place and lists what is allowed there.
Problem parse_problem(std::string_view line);

// Canonical line: defaults are left out, keys in a fixed order; parse_problem(to_string(p)) == p
// for every p that a line can describe.
std::string to_string(const Problem& problem);

// The notation for a person: one line a key with what it takes.
std::string problem_notation();

// The tensors of a problem in host memory. Inputs are drawn from the seed; everything that a call
// must not read holds NaN, results hold NaN until they are written, and guards lie around every
// buffer.
class ProblemInstance {
 public:
  // Reads length files. Throws InvalidArgument when the parts of the problem do not fit together.
  explicit ProblemInstance(const Problem& problem);
  ProblemInstance(ProblemInstance&&) noexcept;
  ProblemInstance& operator=(ProblemInstance&&) noexcept;
  ~ProblemInstance();

  const Problem& problem() const;

  // Arguments for an engine. The tensors belong to this object and live as long as it does.
  const ForwardArgs& forward() const;
  // Backward reads `out` and `lse`, so that forward() must have run. Backward problems only.
  const BackwardArgs& backward() const;

  // Writes NaN into all results.
  void poison();

  // Empty when no input and no memory beside the results has changed since construction; else what
  // was overwritten.
  std::string memory_violation() const;

 private:
  friend class DeviceInstance;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The tensors of an instance once more in the memory of a device: strides, gaps, guards and what an
// address lacks to a multiple of 64 are the same. The instance must live as long.
class DeviceInstance {
 public:
  // Throws DeviceError when the device is missing or its memory too small.
  DeviceInstance(ProblemInstance& instance, const Device& device);
  DeviceInstance(const DeviceInstance&) = delete;
  DeviceInstance& operator=(const DeviceInstance&) = delete;
  ~DeviceInstance();

  const ForwardArgs& forward() const;

  // Writes NaN into all results on the device.
  void poison();

  // Waits for the default stream and copies everything back into the instance, whose results and
  // memory_violation() then tell what happened on the device.
  void copy_back();

 private:
  struct Blocks;
  std::unique_ptr<Blocks> blocks_;
};

}  // namespace jfa
