// Materialises a problem: buffers, values, and the arguments that point at them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "api/argument.hpp"
#include "api/scalar.hpp"
#include "jfa/error.hpp"
#include "jfa/problem.hpp"
#include "problem/instance_parts.hpp"
#include "problem/random.hpp"

namespace jfa {
namespace {

using detail::Buffer;
using detail::Random;
using detail::Side;
using enum detail::Stream;

std::int64_t product(std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result) || result > std::int64_t{1} << 58) {
      throw InvalidArgument("problem: a tensor is larger than 2^58 elements; make it smaller");
    }
  }
  return result;
}

// Elements from the first to one past the last.
std::int64_t reach(const Tensor& tensor) {
  std::int64_t last = 1;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(tensor.rank); ++axis) {
    if (tensor.shape[axis] == 0) return 0;
    last += (tensor.shape[axis] - 1) * tensor.strides[axis];
  }
  return last;
}

// Elements of a row of `heads` heads, gaps included, but for the gap between rows.
std::int64_t row_width(std::int64_t heads, std::int64_t dim, const MemorySpec& memory) {
  return product({heads, dim + memory.head_gap});
}

// Shape and strides of rows [stored | batch · rows] × heads × dim; no data yet.
Tensor rows_tensor(DType dtype, const Side& side, std::int64_t heads, std::int64_t dim,
                   std::int64_t row_stride, const MemorySpec& memory) {
  Tensor tensor;
  tensor.dtype = dtype;
  const std::int64_t head_stride = dim + memory.head_gap;
  if (side.layout == Layout::dense) {
    tensor.rank = 4;
    tensor.shape = {side.sequences(), side.rows, heads, dim};
    tensor.strides = {product({side.rows, row_stride}), row_stride, head_stride, 1};
  } else {
    tensor.rank = 3;
    tensor.shape = {side.stored, heads, dim, 0};
    tensor.strides = {row_stride, head_stride, 1, 0};
  }
  product({std::max<std::int64_t>(side.stored, 1), row_stride});
  return tensor;
}

// Calls visit(row) for the rows that sequences use, each once, in memory order.
template <typename Visit>
void for_used_rows(const Side& side, Visit visit) {
  if (side.layout == Layout::broadcast) {
    for (std::int64_t row = 0; row < side.longest(); ++row) visit(row);
    return;
  }
  for (std::size_t b = 0; b < side.first.size(); ++b) {
    for (std::int64_t i = 0; i < side.length[b]; ++i) visit(side.first[b] + i);
  }
}

// First element of a stored row (dense: b · rows + i).
std::int64_t row_start(const Tensor& tensor, std::int64_t row) {
  if (tensor.rank == 3) return row * tensor.strides[0];
  const std::int64_t rows = tensor.shape[1];
  return row / rows * tensor.strides[0] + row % rows * tensor.strides[1];
}

// Writes draw(d) to every element of the used rows.
template <typename Draw>
void fill_rows(const Tensor& tensor, const Side& side, Draw draw) {
  const auto rank = static_cast<std::size_t>(tensor.rank);
  const std::int64_t heads = tensor.shape[rank - 2];
  const std::int64_t dim = tensor.shape[rank - 1];
  for_used_rows(side, [&](std::int64_t row) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t first = row_start(tensor, row) + h * tensor.strides[rank - 2];
      for (std::int64_t d = 0; d < dim; ++d) detail::store_at(tensor, first + d, draw(d));
    }
  });
}

template <typename Draw>
void fill_all(const Tensor& tensor, Draw draw) {
  detail::for_each_index(tensor, [&](const std::array<std::int64_t, 4>& index) {
    detail::store_at(tensor, index, draw());
  });
}

}  // namespace

void ProblemInstance::Parts::allocate(Tensor& tensor, std::vector<Buffer>& buffers) {
  tensor.data = new_memory(reach(tensor), tensor.dtype, buffers);
}

Tensor ProblemInstance::Parts::input(DType dtype, std::initializer_list<std::int64_t> shape) {
  for (const std::int64_t extent : shape) product({extent});
  product(shape);
  Tensor tensor = contiguous(nullptr, dtype, shape);
  allocate(tensor, inputs);
  return tensor;
}

Tensor ProblemInstance::Parts::result(DType dtype, std::initializer_list<std::int64_t> shape) {
  Tensor tensor = contiguous(nullptr, dtype, shape);
  allocate(tensor, results);
  result_tensors.push_back({tensor});
  return tensor;
}

void* ProblemInstance::Parts::new_memory(std::int64_t elements, DType dtype,
                                         std::vector<Buffer>& buffers) {
  const std::int64_t bytes = elements * size_of(dtype);
  total_bytes += bytes;
  const std::int64_t machine = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  if (machine > 0 && total_bytes > machine) {
    throw InvalidArgument(fmt::format(
        "problem: its tensors need more than {} GiB, this machine has {} GiB of memory; make the "
        "lengths, the batch or the head dimensions smaller",
        total_bytes >> 30, machine >> 30));
  }
  return buffers.emplace_back(bytes, problem.memory.misalign * size_of(dtype)).data();
}

Tensor ProblemInstance::Parts::integers(const std::vector<std::int64_t>& values) {
  const bool wide = problem.memory.int64_offsets;
  const Tensor tensor =
      input(wide ? DType::int64 : DType::int32, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!wide && values[i] > std::numeric_limits<std::int32_t>::max()) {
      throw InvalidArgument(fmt::format(
          "problem: {} does not fit into int32 offsets; add the word int64", values[i]));
    }
    if (wide) {
      static_cast<std::int64_t*>(tensor.data)[i] = values[i];
    } else {
      static_cast<std::int32_t*>(tensor.data)[i] = static_cast<std::int32_t>(values[i]);
    }
  }
  return tensor;
}

// Memory for q, k and v, or for their gradients: one buffer each, or fused ones.
void ProblemInstance::Parts::make_rows(Tensor& q, Tensor& k, Tensor& v,
                                       std::vector<Buffer>& buffers,
                                       std::vector<std::vector<Tensor>>* groups) {
  const MemorySpec& memory = problem.memory;
  const DType dtype = problem.dtype;
  const std::int64_t q_width = row_width(problem.heads, problem.dim, memory);
  const std::int64_t k_width = row_width(problem.kv_heads, problem.dim, memory);
  const std::int64_t v_width = row_width(problem.kv_heads, problem.value_dim, memory);
  const bool with_q = memory.fused && !problem.kv;
  const std::int64_t kv_stride = memory.fused ? (with_q ? q_width : 0) + k_width + v_width : 0;
  const std::int64_t gap = memory.row_gap;
  q = rows_tensor(dtype, sides.q, problem.heads, problem.dim, (with_q ? kv_stride : q_width) + gap,
                  memory);
  k = rows_tensor(dtype, sides.kv, problem.kv_heads, problem.dim,
                  (memory.fused ? kv_stride : k_width) + gap, memory);
  v = rows_tensor(dtype, sides.kv, problem.kv_heads, problem.value_dim,
                  (memory.fused ? kv_stride : v_width) + gap, memory);
  if (!memory.fused) {
    for (Tensor* tensor : {&q, &k, &v}) allocate(*tensor, buffers);
    if (groups != nullptr) groups->insert(groups->end(), {{q}, {k}, {v}});
    return;
  }
  // Columns of one buffer: [q | k | v] or [k | v].
  const auto bytes_of = [&](std::int64_t elements) { return elements * size_of(dtype); };
  if (!with_q) allocate(q, buffers);
  const std::int64_t k_column = with_q ? q_width : 0;
  const std::int64_t elements = sides.kv.stored == 0 ? 0 : k_column + k_width + reach(v);
  auto* base = static_cast<std::byte*>(new_memory(elements, dtype, buffers));
  if (with_q) q.data = base;
  k.data = base + bytes_of(k_column);
  v.data = base + bytes_of(k_column + k_width);
  if (groups == nullptr) return;
  if (!with_q) groups->push_back({q});
  groups->push_back(with_q ? std::vector{q, k, v} : std::vector{k, v});
}

void ProblemInstance::Parts::make_sequences(AttentionArgs& args) {
  args.q_sequences.layout = sides.q.layout;
  args.kv_sequences.layout = sides.kv.layout;
  for (const auto& [side, sequences] :
       {std::pair{&sides.q, &args.q_sequences}, std::pair{&sides.kv, &args.kv_sequences}}) {
    if (side->layout == Layout::jagged) sequences->offsets = integers(side->offsets);
    if (side->has_holes) sequences->used_lengths = integers(side->length);
  }
  const bool mapped = problem.kv_share > 0 || !problem.kv_map.empty();
  if (mapped) args.kv_map = integers(sides.kv_map);
  args.batch = problem.batch;
}

void ProblemInstance::Parts::make_mask(Mask& mask) {
  const MaskSpec& spec = problem.mask;
  mask.kind = spec.kind;
  mask.alignment = spec.alignment;
  mask.hstu_causal = spec.hstu_causal;
  const auto set = [&](SequenceParameter& parameter, const SequenceValues& values) {
    if (values.size() == 1) {
      parameter.value = values[0];
      return;
    }
    std::vector<std::int64_t> each;
    for (std::int64_t b = 0; b < sides.batch; ++b) {
      each.push_back(values[static_cast<std::size_t>(b) % values.size()]);
    }
    parameter.per_sequence = integers(each);
  };
  set(mask.left, spec.left);
  set(mask.right, spec.right);
  set(mask.contextual, spec.contextual);
  set(mask.targets, spec.targets);
  set(mask.target_group, spec.target_group);
  set(mask.max_attention_length, spec.max_attention_length);
  set(mask.min_full_attention, spec.min_full_attention);
  set(mask.prefix, spec.prefix);
  set(mask.local, spec.local);
  set(mask.block, spec.block);
  if (spec.kind == MaskKind::intervals) mask.intervals = make_intervals();
}

// Drawn intervals: some empty, some beyond the sequence, some overlapping.
Tensor ProblemInstance::Parts::make_intervals() {
  const std::int64_t columns = 2 * problem.mask.intervals;
  const Tensor tensor = input(DType::int32, {sides.out_rows(), columns});
  auto* data = static_cast<std::int32_t*>(tensor.data);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    data[i] = i % 2 == 0 ? 0 : std::numeric_limits<std::int32_t>::max();  // unused rows: everything
  }
  Random random(problem.seed, kIntervals);
  for (std::int64_t b = 0; b < sides.batch; ++b) {
    const std::int64_t keys = sides.kv.length[static_cast<std::size_t>(sides.kv_of(b))];
    for (std::int64_t i = 0; i < sides.q.length[static_cast<std::size_t>(b)]; ++i) {
      for (std::int64_t c = 0; c < columns; c += 2) {
        const std::int64_t lo = random.integer(-2, keys);
        std::int32_t* bounds = data + (sides.out_row(b) + i) * columns + c;
        bounds[0] = static_cast<std::int32_t>(lo);
        bounds[1] = static_cast<std::int32_t>(random.integer(lo - 1, keys + 2));
      }
    }
  }
  return tensor;
}

Tensor ProblemInstance::Parts::make_timestamps(const Side& side, detail::Stream stream) {
  const Tensor times = input(DType::int64, {side.stored});
  auto* data = static_cast<std::int64_t*>(times.data);
  Random random(problem.seed, stream);
  std::int64_t now = 1'500'000'000;
  for_used_rows(side, [&](std::int64_t row) {
    now += random.integer(0, std::int64_t{1} << random.integer(0, 20));  // seconds to days
    data[row] = now;
  });
  return times;
}

void ProblemInstance::Parts::make_bias(Bias& bias) {
  const BiasSpec& spec = problem.bias;
  const std::int64_t heads = problem.heads;
  if (spec.dense) {
    const std::int64_t batch = spec.dense_each_sequence ? sides.batch : 1;
    const std::int64_t slices = spec.dense_each_head ? heads : 1;
    bias.dense = input(spec.dense_float32 ? DType::float32 : problem.dtype,
                       {batch, slices, sides.q.longest(), sides.kv.longest()});
    Random random(problem.seed, kDenseBias);
    for (std::int64_t b = 0; b < sides.batch; ++b) {  // a shared slice is written again and again
      const std::int64_t rows = sides.q.length[static_cast<std::size_t>(b)];
      const std::int64_t keys = sides.kv.length[static_cast<std::size_t>(sides.kv_of(b))];
      for (std::int64_t h = 0; h < slices; ++h) {
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < keys; ++j) {
            detail::store_at(bias.dense, {batch == 1 ? 0 : b, h, i, j}, random.bell());
          }
        }
      }
    }
  }
  if (spec.alibi) {
    bias.alibi_slopes = spec.alibi_each_sequence ? input(DType::float32, {sides.batch, heads})
                                                 : input(DType::float32, {heads});
    Random random(problem.seed, kSlopes);
    fill_all(bias.alibi_slopes, [&] { return 0.5 * random.uniform(); });
  }
  if (spec.position > 0) {
    bias.position_table =
        input(DType::float32, {spec.position_each_head ? heads : 1, 2 * spec.position - 1});
    Random random(problem.seed, kPositions);
    fill_all(bias.position_table, [&] { return random.bell(); });
  }
  if (spec.time > 0) {
    bias.time_table = input(DType::float32, {spec.time_each_head ? heads : 1, spec.time});
    bias.time_scale = spec.time_scale;
    Random random(problem.seed, kTimes);
    fill_all(bias.time_table, [&] { return random.bell(); });
    bias.q_timestamps = make_timestamps(sides.q, kQueryTimes);
    bias.kv_timestamps = make_timestamps(sides.kv, kKeyTimes);
  }
}

void ProblemInstance::Parts::make_out_scales(AttentionArgs& args) {
  args.out_scale_kind = problem.out_scales;
  if (problem.out_scales == OutScale::uniform) return;
  const bool per_token = problem.out_scales == OutScale::per_token;
  args.out_scales = input(DType::float32, {per_token ? sides.out_rows() : sides.batch});
  Random random(problem.seed, kOutScales);
  auto* data = static_cast<float*>(args.out_scales.data);
  for (std::int64_t b = 0; b < sides.batch; ++b) {
    const std::int64_t first = per_token ? sides.out_row(b) : b;
    const std::int64_t count = per_token ? sides.q.length[static_cast<std::size_t>(b)] : 1;
    for (std::int64_t i = 0; i < count; ++i) {
      data[first + i] = static_cast<float>(0.5 + random.uniform());
    }
  }
}

// Shape and strides of out and d_out.
Tensor ProblemInstance::Parts::out_tensor() const {
  Side rows = sides.q;
  if (rows.layout == Layout::broadcast) rows.layout = Layout::dense;  // one block a sequence
  rows.stored = sides.out_rows();
  const std::int64_t stride =
      row_width(problem.heads, problem.value_dim, problem.memory) + problem.memory.row_gap;
  return rows_tensor(problem.dtype, rows, problem.heads, problem.value_dim, stride, problem.memory);
}

void ProblemInstance::Parts::make_forward() {
  AttentionArgs& args = forward;
  make_rows(args.q, args.k, args.v, inputs, nullptr);
  const bool softmax = problem.activation == Activation::softmax;
  args.activation = problem.activation;
  args.leaky_slope = problem.leaky_slope;
  args.scale = problem.scale;
  args.out_scale = problem.out_scale;

  // scale · q · k has standard deviation scale · √D · size²; the first component adds the shift.
  const double root = std::sqrt(static_cast<double>(problem.dim));
  const double scale = std::abs(problem.scale.value_or(softmax ? 1 / root : 1.0));
  const double size = scale > 0 ? std::sqrt(problem.magnitude / (scale * root)) : 1.0;
  const double offset = scale > 0 ? std::sqrt(std::abs(problem.shift) / scale) : 0.0;
  const double sign = (problem.shift < 0) == (problem.scale.value_or(1) < 0) ? 1.0 : -1.0;
  Random queries(problem.seed, kQueries);
  fill_rows(args.q, sides.q,
            [&](std::int64_t d) { return size * queries.bell() + (d == 0 ? offset : 0.0); });
  Random keys(problem.seed, kKeys);
  fill_rows(args.k, sides.kv,
            [&](std::int64_t d) { return size * keys.bell() + (d == 0 ? sign * offset : 0.0); });
  Random values(problem.seed, kValues);
  fill_rows(args.v, sides.kv, [&](std::int64_t) { return values.bell(); });

  make_sequences(args);
  make_mask(args.mask);
  make_bias(args.bias);
  make_out_scales(args);

  forward.out = out_tensor();
  allocate(forward.out, results);
  result_tensors.push_back({forward.out});
  if (softmax) forward.lse = result(DType::float32, {problem.heads, sides.out_rows()});
}

void ProblemInstance::Parts::make_backward() {
  static_cast<AttentionArgs&>(backward) = forward;
  if (problem.activation == Activation::softmax) {
    backward.out = forward.out;
    backward.lse = forward.lse;
  }
  backward.deterministic = problem.deterministic;

  Random random(problem.seed, kOutputGradient);
  backward.d_out = out_tensor();
  if (problem.memory.expanded_gradient) {
    backward.d_out.strides = {};
    allocate(backward.d_out, inputs);
    fill_all(backward.d_out, [value = 0.5 + random.uniform()] { return value; });
  } else {
    allocate(backward.d_out, inputs);
    Side rows = sides.q;
    if (rows.layout == Layout::broadcast) {
      rows.layout = Layout::dense;
      for (std::int64_t b = 0; b < sides.batch; ++b) {
        rows.first[static_cast<std::size_t>(b)] = b * rows.rows;
      }
    }
    fill_rows(backward.d_out, rows, [&](std::int64_t) { return random.bell(); });
  }

  make_rows(backward.d_q, backward.d_k, backward.d_v, results, &result_tensors);
  if (!problem.gradients.q) backward.d_q = {};
  if (!problem.gradients.k) backward.d_k = {};
  if (!problem.gradients.v) backward.d_v = {};
  if (!problem.gradients.bias) return;
  const auto like = [&](const Tensor& bias, Tensor& gradient) {
    if (!bias.present()) return;
    gradient = bias;
    gradient.dtype = DType::float32;
    allocate(gradient, results);
    result_tensors.push_back({gradient});
  };
  like(backward.bias.dense, backward.d_bias_dense);
  like(backward.bias.alibi_slopes, backward.d_alibi_slopes);
  like(backward.bias.position_table, backward.d_position_table);
  like(backward.bias.time_table, backward.d_time_table);
}

ProblemInstance::ProblemInstance(const Problem& problem)
    : parts_(std::make_unique<Parts>(problem)) {
  parts_->make_forward();
  if (problem.direction == Direction::backward) parts_->make_backward();
  for (const Buffer& buffer : parts_->inputs) {
    parts_->input_fingerprints.push_back(detail::fingerprint(buffer.all()));
  }
}

ProblemInstance::ProblemInstance(ProblemInstance&&) noexcept = default;
ProblemInstance& ProblemInstance::operator=(ProblemInstance&&) noexcept = default;
ProblemInstance::~ProblemInstance() = default;

const Problem& ProblemInstance::problem() const {
  return parts_->problem;
}
const ForwardArgs& ProblemInstance::forward() const {
  return parts_->forward;
}

const BackwardArgs& ProblemInstance::backward() const {
  if (parts_->problem.direction != Direction::backward) {
    throw InvalidArgument("problem: it is a forward problem; begin the line with bwd");
  }
  return parts_->backward;
}

void ProblemInstance::poison() {
  for (Buffer& buffer : parts_->results) buffer.fill_with_ones();
}

std::string ProblemInstance::memory_violation() const {
  for (std::size_t i = 0; i < parts_->inputs.size(); ++i) {
    const Buffer& buffer = parts_->inputs[i];
    if (detail::fingerprint(buffer.all()) != parts_->input_fingerprints[i]) {
      return fmt::format("input buffer {} of {} was written to", i, parts_->inputs.size());
    }
  }
  for (std::size_t i = 0; i < parts_->results.size(); ++i) {
    if (!detail::rest_is_untouched(parts_->results[i], parts_->result_tensors[i])) {
      return fmt::format("memory beside the elements of result {} was written to: {}", i,
                         detail::describe(parts_->result_tensors[i].front()));
    }
  }
  return {};
}

}  // namespace jfa
