#include "random_problem.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>

namespace jfa::testing {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t number) : random_(number * 0x9e3779b97f4a7c15 + 1) {}

  std::int64_t between(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(hi - lo + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + between(0, static_cast<std::int64_t>(values.size()) - 1));
  }
  std::uint64_t bits() { return random_(); }

 private:
  std::mt19937_64 random_;
};

// Around the sizes where tiles and vectors end, mostly short so that many problems fit in a minute.
std::int64_t draw_length(Draw& draw) {
  if (draw.chance(20)) return 0;
  if (draw.chance(60)) return draw.between(1, 20);
  if (draw.chance(80)) return draw.one_of<std::int64_t>({15, 16, 17, 31, 32, 33, 48, 63, 64, 65});
  return draw.one_of<std::int64_t>({100, 127, 128, 129, 130, 200});
}

std::vector<std::int64_t> draw_lengths(Draw& draw, std::int64_t batch) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = 0; b < batch; ++b) lengths.push_back(draw_length(draw));
  if (draw.chance(3)) std::fill(lengths.begin(), lengths.end(), 0);
  return lengths;
}

void draw_shapes(Draw& draw, Problem& p) {
  p.dtype = draw.one_of({DType::float32, DType::bfloat16, DType::float16});
  p.dim = draw.chance(70) ? draw.one_of<std::int64_t>({8, 16, 24, 32, 40, 64})
                          : draw.one_of<std::int64_t>(
                                {1, 2, 3, 5, 7, 9, 17, 72, 80, 96, 112, 120, 128, 160, 192, 256});
  p.value_dim = draw.chance(70) ? p.dim : draw.one_of<std::int64_t>({1, 4, 8, 16, 33, 64, 128});
  const std::int64_t groups = draw.one_of<std::int64_t>({1, 1, 2, 3});
  p.kv_heads = draw.one_of<std::int64_t>({1, 1, 2, 3});
  p.heads = p.kv_heads * groups;
}

SequenceSpec dense(std::int64_t batch, std::int64_t rows) {
  SequenceSpec spec;
  spec.layout = Layout::dense;
  spec.batch = batch;
  spec.rows = rows;
  return spec;
}

SequenceSpec broadcast(std::int64_t rows) {
  SequenceSpec spec;
  spec.layout = Layout::broadcast;
  spec.rows = rows;
  return spec;
}

SequenceSpec jagged(Draw& draw, std::int64_t batch) {
  SequenceSpec spec;
  spec.lengths.text = list_text(draw_lengths(draw, batch));
  return spec;
}

void draw_sequences(Draw& draw, Problem& p) {
  std::int64_t batch = draw.one_of<std::int64_t>({0, 1, 2, 3, 4, 7, 12});
  const std::int64_t rows = draw_length(draw);
  const std::int64_t layout = draw.between(1, 100);
  if (layout <= 80) {
    p.q = jagged(draw, batch);
  } else if (layout <= 90) {
    p.q = dense(batch, rows);
  } else {
    p.q = broadcast(rows);
  }
  if (draw.chance(40)) {  // kv=same
    if (p.q.layout == Layout::broadcast) p.batch = batch;
    return;
  }
  if (draw.chance(15) && batch > 0) {  // many queries, one request
    if (p.q.layout != Layout::broadcast && draw.chance(50)) {
      p.kv_share = draw.between(1, 4);
      p.kv = jagged(draw, (batch + p.kv_share - 1) / p.kv_share);
    } else {
      const std::int64_t requests = draw.between(1, 4);
      p.kv = jagged(draw, requests);
      for (std::int64_t b = 0; b < batch; ++b) p.kv_map.push_back(draw.between(0, requests - 1));
    }
    return;
  }
  const std::int64_t kv_layout = draw.between(1, 100);
  if (kv_layout <= 80) {
    p.kv = jagged(draw, batch);
  } else if (kv_layout <= 90) {
    p.kv = dense(batch, draw_length(draw));
  } else {
    p.kv = broadcast(draw_length(draw));
    if (p.q.layout == Layout::broadcast) p.batch = batch;
  }
}

// One value, or three that sequences use in turn.
SequenceValues draw_values(Draw& draw, std::int64_t lo, std::int64_t hi) {
  SequenceValues values = {draw.between(lo, hi)};
  if (draw.chance(30)) values.insert(values.end(), {draw.between(lo, hi), draw.between(lo, hi)});
  return values;
}

// The parameters of the mask's kind.
void draw_mask_parameters(Draw& draw, MaskSpec& mask) {
  mask.alignment = draw.one_of({Alignment::bottom_right, Alignment::top_left});
  switch (mask.kind) {
    case MaskKind::window:
      mask.left = draw_values(draw, -1, 40);
      mask.right = draw_values(draw, -1, 40);
      break;
    case MaskKind::hstu:
      mask.hstu_causal = draw.chance(70);
      if (draw.chance(60)) mask.contextual = draw_values(draw, 0, 6);
      if (draw.chance(60)) mask.targets = draw_values(draw, 0, 25);
      if (draw.chance(30)) mask.target_group = draw_values(draw, 1, 5);
      if (draw.chance(40)) mask.max_attention_length = draw_values(draw, 0, 30);
      if (draw.chance(40)) mask.min_full_attention = draw_values(draw, 0, 20);
      break;
    case MaskKind::prefix_local:
      mask.prefix = draw_values(draw, 0, 20);
      mask.local = draw_values(draw, 0, 40);
      break;
    case MaskKind::blocks:
      mask.block = draw_values(draw, 1, 40);
      break;
    case MaskKind::intervals:
      mask.intervals = draw.between(1, 2);
      break;
    case MaskKind::full:
    case MaskKind::causal:
      break;
  }
}

void draw_mask(Draw& draw, MaskSpec& mask) {
  mask.kind =
      draw.one_of({MaskKind::full, MaskKind::causal, MaskKind::window, MaskKind::hstu,
                   MaskKind::hstu, MaskKind::prefix_local, MaskKind::blocks, MaskKind::intervals});
  draw_mask_parameters(draw, mask);
}

void draw_bias(Draw& draw, BiasSpec& bias) {
  if (draw.chance(55)) return;
  bias.dense = draw.chance(40);
  bias.dense_each_sequence = draw.chance(60);
  bias.dense_each_head = draw.chance(60);
  bias.dense_float32 = draw.chance(60);
  bias.alibi = draw.chance(40);
  bias.alibi_each_sequence = draw.chance(40);
  bias.position = draw.chance(40) ? draw.one_of<std::int64_t>({1, 2, 9, 40}) : 0;
  bias.position_each_head = draw.chance(60);
  bias.time = draw.chance(40) ? draw.one_of<std::int64_t>({1, 7, 64}) : 0;
  bias.time_each_head = draw.chance(60);
  // What a line does not say has its default.
  const BiasSpec fallback;
  if (!bias.dense) {
    bias.dense_each_sequence = fallback.dense_each_sequence;
    bias.dense_each_head = fallback.dense_each_head;
    bias.dense_float32 = fallback.dense_float32;
  }
  if (!bias.alibi) bias.alibi_each_sequence = fallback.alibi_each_sequence;
  if (bias.position == 0) bias.position_each_head = fallback.position_each_head;
  if (bias.time == 0) bias.time_each_head = fallback.time_each_head;
}

void draw_memory(Draw& draw, Problem& p) {
  MemorySpec& memory = p.memory;
  if (draw.chance(30)) memory.offset0 = 5;
  if (draw.chance(30)) memory.slack = draw.between(1, 9);
  if (draw.chance(25)) memory.holes = draw_values(draw, 0, 5);
  if (memory.holes == SequenceValues{0}) memory.holes = {0};
  if (draw.chance(20)) memory.head_gap = draw.one_of<std::int64_t>({1, 8, 13});
  if (draw.chance(20)) memory.row_gap = draw.one_of<std::int64_t>({1, 7, 64});
  if (draw.chance(25)) memory.misalign = draw.between(1, 31);
  memory.fused = draw.chance(20);
  memory.int64_offsets = draw.chance(40);
  memory.expanded_gradient = p.direction == Direction::backward && draw.chance(10);
}

void draw_arithmetic(Draw& draw, Problem& p) {
  if (draw.chance(50)) {
    p.activation = draw.one_of({Activation::silu, Activation::gelu, Activation::gelu_tanh,
                                Activation::relu, Activation::relu2, Activation::leaky_relu,
                                Activation::hardswish, Activation::identity});
  }
  if (p.activation == Activation::leaky_relu) p.leaky_slope = 0.125;
  if (draw.chance(20)) p.scale = draw.one_of({0.0, 0.05, -0.1, 1.0});
  if (draw.chance(20)) p.out_scale = draw.one_of({0.0, 0.005, -1.0, 3.0});
  p.out_scales = draw.one_of(
      {OutScale::uniform, OutScale::uniform, OutScale::per_sequence, OutScale::per_token});
  if (draw.chance(15)) p.magnitude = draw.one_of({0.0, 1e-3, 30.0, 200.0});
  if (p.activation == Activation::softmax && p.scale.value_or(1) == 1 && draw.chance(5)) {
    p.shift = draw.one_of({-5e5, 5e5, -300.0});
    if (p.dtype == DType::float16) p.shift = -300;  // larger ones are beyond float16
  }
}

}  // namespace

std::string list_text(const std::vector<std::int64_t>& lengths) {
  std::string text;
  for (const std::int64_t length : lengths) {
    if (!text.empty()) text += ',';
    text += std::to_string(length);
  }
  return text;
}

namespace {

// A length around the ends of the kernels' tiles and blocks of keys.
std::int64_t draw_device_length(Draw& draw) {
  if (draw.chance(75)) return draw_length(draw);
  return draw.one_of<std::int64_t>({95, 96, 97, 159, 160, 161, 191, 192, 193, 255, 256, 257, 300});
}

void draw_device_lengths(Draw& draw, SequenceSpec& side) {
  if (side.layout != Layout::jagged) {
    if (draw.chance(30)) side.rows = draw_device_length(draw);
    return;
  }
  if (!draw.chance(60)) return;
  std::vector<std::int64_t> lengths = generate_lengths(side.lengths);
  for (std::size_t b = 0; b < lengths.size() && b < 3; ++b) lengths[b] = draw_device_length(draw);
  side.lengths.text = list_text(lengths);
}

struct HeadDimensions {
  std::int64_t dim, value_dim;
};

// What kernel number `number` is compiled for. The lists have lengths without a common factor where
// that matters, so that their entries meet in ever new pairs.
void set_kernel(std::uint64_t number, Problem& p) {
  constexpr std::array<HeadDimensions, 11> kDimensions = {{{64, 64},
                                                           {128, 128},
                                                           {40, 40},
                                                           {256, 256},
                                                           {16, 16},
                                                           {192, 128},
                                                           {96, 96},
                                                           {8, 8},
                                                           {192, 192},
                                                           {64, 128},
                                                           {128, 24}}};
  constexpr std::array<MaskKind, 7> kMasks = {
      MaskKind::full,   MaskKind::causal,       MaskKind::hstu,     MaskKind::window,
      MaskKind::blocks, MaskKind::prefix_local, MaskKind::intervals};
  constexpr std::array<Activation, 8> kElementwise = {
      Activation::silu,  Activation::gelu,       Activation::relu,      Activation::gelu_tanh,
      Activation::relu2, Activation::leaky_relu, Activation::hardswish, Activation::identity};
  constexpr std::array<std::int64_t, 5> kGroups = {1, 2, 1, 4, 3};
  constexpr std::array<OutScale, 3> kOutScales = {OutScale::uniform, OutScale::per_token,
                                                  OutScale::per_sequence};
  p.dtype = number % 3 == 2 ? DType::float16 : DType::bfloat16;
  p.dim = kDimensions.at(number % kDimensions.size()).dim;
  p.value_dim = kDimensions.at(number % kDimensions.size()).value_dim;
  p.mask.kind = kMasks.at(number % kMasks.size());
  const bool softmax = number % 5 < 3;
  p.activation = softmax ? Activation::softmax : kElementwise.at(number / 5 % kElementwise.size());
  if (p.activation == Activation::leaky_relu) p.leaky_slope = 0.125;
  const std::int64_t group = kGroups.at(number / 2 % kGroups.size());
  p.kv_heads = group > 2 ? 1 : 2;
  p.heads = p.kv_heads * group;
  p.out_scales = kOutScales.at(number / 4 % kOutScales.size());
}

}  // namespace

Problem random_device_problem(std::uint64_t number, std::uint64_t kernels) {
  Draw draw(number + (std::uint64_t{1} << 32));
  Problem p;
  set_kernel(number % kernels, p);
  draw_sequences(draw, p);
  draw_device_lengths(draw, p.q);
  if (p.kv) draw_device_lengths(draw, *p.kv);
  draw_mask_parameters(draw, p.mask);
  if (draw.chance(20)) p.scale = draw.one_of({0.0, 0.05, -0.1, 1.0});
  if (draw.chance(20)) p.out_scale = draw.one_of({0.0, 0.005, -1.0, 3.0});
  if (draw.chance(15)) p.magnitude = draw.one_of({0.0, 1e-3, 30.0, 200.0});
  // Elementwise weights are operands of the tensor core: float16 ends at 65,504.
  const bool narrow = p.dtype == DType::float16 && p.activation != Activation::softmax;
  if (narrow) p.magnitude = std::min(p.magnitude, p.activation == Activation::relu2 ? 1.0 : 30.0);
  draw_memory(draw, p);
  p.seed = draw.bits() % 1000;
  return p;
}

Problem random_problem(std::uint64_t number) {
  Draw draw(number);
  Problem p;
  p.direction = draw.chance(65) ? Direction::backward : Direction::forward;
  draw_shapes(draw, p);
  draw_sequences(draw, p);
  draw_arithmetic(draw, p);
  draw_mask(draw, p.mask);
  draw_bias(draw, p.bias);
  draw_memory(draw, p);
  if (p.direction == Direction::backward) {
    p.deterministic = draw.chance(50);
    if (draw.chance(15)) {
      p.gradients = {draw.chance(50), draw.chance(50), draw.chance(50), draw.chance(50)};
      if (p.gradients == GradientSpec{false, false, false, false}) p.gradients.v = true;
    }
  }
  p.seed = draw.bits() % 1000;
  return p;
}

}  // namespace jfa::testing
