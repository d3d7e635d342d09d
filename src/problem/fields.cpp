#include "problem/fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "problem/lengths.hpp"
#include "problem/text.hpp"

namespace jfa::detail {
namespace {

constexpr std::int64_t kMostRows = kLongestSequence;
constexpr std::int64_t kMostElements = std::int64_t{1} << 20;  // of gaps and head dimensions
constexpr std::int64_t kAnyNumber = std::int64_t{1} << 40;
constexpr std::int64_t kMostValues = 1 << 20;  // entries of a list in the line

using Text = std::optional<std::string>;

// Shortest decimal that reads back as the same number, without the + of exponents, which separates
// biases.
std::string real_text(double value) {
  std::string text = fmt::format("{}", value);
  text.erase(std::remove(text.begin(), text.end(), '+'), text.end());
  return text;
}

// Names of an enum in the order of its values.
template <typename Enum>
Enum parse_name(std::string_view text, std::span<const std::string_view> names) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    throw TextError(text, "unknown name; allowed: " + alternatives({names.begin(), names.end()}));
  }
  return static_cast<Enum>(found - names.begin());
}

template <typename Enum, std::size_t kCount>
std::string_view name_from(Enum value, const std::array<std::string_view, kCount>& names) {
  return names.at(static_cast<std::size_t>(value));
}

constexpr std::array<std::string_view, 9> kActivations = {
    "softmax", "silu", "gelu", "gelu_tanh", "relu", "relu2", "leaky_relu", "hardswish", "identity"};
constexpr std::array<std::string_view, 7> kMasks = {"full",         "causal", "window",   "hstu",
                                                    "prefix_local", "blocks", "intervals"};
constexpr std::array<std::string_view, 2> kAlignments = {"bottom_right", "top_left"};
constexpr std::array<std::string_view, 3> kOutScales = {"uniform", "sequence", "token"};
constexpr std::array<std::string_view, 2> kShares = {"one", "each"};
constexpr std::array<std::string_view, 2> kDenseTypes = {"q", "fp32"};
constexpr std::array<std::string_view, 2> kSwitch = {"0", "1"};

SequenceValues parse_values(std::string_view text, std::int64_t minimum, std::int64_t maximum) {
  SequenceValues values;
  for (const std::string_view piece : split(text, '/')) {
    values.push_back(parse_integer(piece, minimum, maximum));
  }
  return values;
}

std::string values_text(const SequenceValues& values) {
  return fmt::format("{}", fmt::join(values, "/"));
}

// ",name=value" for what differs from the default; the first comma becomes the colon.
class OptionText {
 public:
  template <typename T>
  void add(std::string_view name, const T& value, const T& fallback, const std::string& text) {
    if (value != fallback) text_ += fmt::format("{}{}={}", text_.empty() ? ":" : ",", name, text);
  }
  void values(std::string_view name, const SequenceValues& value, const SequenceValues& fallback) {
    add(name, value, fallback, values_text(value));
  }
  std::string text(std::string_view head) const { return std::string(head) + text_; }

 private:
  std::string text_;
};

// --- q= and kv= ---------------------------------------------------------------------------------

SequenceSpec parse_sequences(std::string_view text) {
  SequenceSpec spec;
  const Pair pair = cut(text, ':');
  if (pair.before == "dense") {
    spec.layout = Layout::dense;
    parse_options(pair.after, {"batch", "rows"},
                  [&](std::string_view name, std::string_view value) {
                    if (name != "batch" && name != "rows") return false;
                    (name == "batch" ? spec.batch : spec.rows) =
                        parse_integer(value, 0, name == "batch" ? kMostSequences : kMostRows);
                    return true;
                  });
  } else if (pair.before == "broadcast") {
    spec.layout = Layout::broadcast;
    parse_options(pair.after, {"rows"}, [&](std::string_view name, std::string_view value) {
      if (name != "rows") return false;
      spec.rows = parse_integer(value, 0, kMostRows);
      return true;
    });
  } else {
    check_length_notation(text);
    spec.lengths.text = text;
  }
  return spec;
}

std::string sequences_text(const SequenceSpec& spec) {
  switch (spec.layout) {
    case Layout::jagged:
      return spec.lengths.text;
    case Layout::dense:
      return fmt::format("dense:batch={},rows={}", spec.batch, spec.rows);
    case Layout::broadcast:
      return fmt::format("broadcast:rows={}", spec.rows);
  }
  return {};
}

void parse_kv_map(Problem& problem, std::string_view text) {
  if (text.starts_with("share:")) {
    problem.kv_share = parse_integer(text.substr(6), 1, kMostSequences);
    return;
  }
  if (text.empty()) return;
  for (const std::string_view piece : split(text, ',')) {
    const Pair pair = cut(piece, 'x');
    const std::int64_t target = parse_integer(pair.before, 0, kMostSequences);
    const std::int64_t room = kMostValues - static_cast<std::int64_t>(problem.kv_map.size());
    const std::int64_t count = pair.found ? parse_integer(pair.after, 0, room) : 1;
    if (count > room) throw TextError(piece, fmt::format("more than {} entries", kMostValues));
    problem.kv_map.insert(problem.kv_map.end(), static_cast<std::size_t>(count), target);
  }
}

Text kv_map_text(const Problem& problem) {
  if (problem.kv_share > 0) return fmt::format("share:{}", problem.kv_share);
  if (problem.kv_map.empty()) return {};
  std::string text;
  for (std::size_t i = 0; i < problem.kv_map.size();) {
    std::size_t end = i;
    while (end < problem.kv_map.size() && problem.kv_map[end] == problem.kv_map[i]) ++end;
    if (!text.empty()) text += ',';
    text += fmt::format("{}", problem.kv_map[i]);
    if (end - i > 1) text += fmt::format("x{}", end - i);
    i = end;
  }
  return text;
}

// --- mask= --------------------------------------------------------------------------------------

struct MaskOption {
  MaskKind kind;
  std::string_view name;
  SequenceValues MaskSpec::*values;
  std::int64_t minimum;
};

const std::vector<MaskOption>& mask_options() {
  static const std::vector<MaskOption> kOptions = {
      {MaskKind::window, "left", &MaskSpec::left, -1},
      {MaskKind::window, "right", &MaskSpec::right, -1},
      {MaskKind::hstu, "contextual", &MaskSpec::contextual, 0},
      {MaskKind::hstu, "targets", &MaskSpec::targets, 0},
      {MaskKind::hstu, "group", &MaskSpec::target_group, 1},
      {MaskKind::hstu, "window", &MaskSpec::max_attention_length, 0},
      {MaskKind::hstu, "full", &MaskSpec::min_full_attention, 0},
      {MaskKind::prefix_local, "prefix", &MaskSpec::prefix, 0},
      {MaskKind::prefix_local, "local", &MaskSpec::local, 0},
      {MaskKind::blocks, "size", &MaskSpec::block, 1},
  };
  return kOptions;
}

void parse_mask(Problem& problem, std::string_view text) {
  const Pair pair = cut(text, ':');
  MaskSpec& mask = problem.mask;
  mask.kind = parse_name<MaskKind>(pair.before, kMasks);
  if (!pair.found) return;
  std::vector<std::string_view> allowed;
  for (const MaskOption& option : mask_options()) {
    if (option.kind == mask.kind) allowed.push_back(option.name);
  }
  if (mask.kind == MaskKind::hstu) allowed.push_back("causal");
  if (mask.kind == MaskKind::intervals) allowed.push_back("count");
  if (allowed.empty()) throw TextError(pair.after, "this mask has no options");
  parse_options(pair.after, allowed, [&](std::string_view name, std::string_view value) {
    if (mask.kind == MaskKind::hstu && name == "causal") {
      mask.hstu_causal = parse_name<int>(value, kSwitch) == 1;
      return true;
    }
    if (mask.kind == MaskKind::intervals && name == "count") {
      mask.intervals = parse_integer(value, 1, 2);
      return true;
    }
    for (const MaskOption& option : mask_options()) {
      if (option.kind != mask.kind || option.name != name) continue;
      mask.*option.values = parse_values(value, option.minimum, kAnyNumber);
      return true;
    }
    return false;
  });
}

Text mask_text(const Problem& problem) {
  static const MaskSpec kDefault;
  const MaskSpec& mask = problem.mask;
  OptionText options;
  for (const MaskOption& option : mask_options()) {
    if (option.kind == mask.kind) {
      options.values(option.name, mask.*option.values, kDefault.*option.values);
    }
  }
  if (mask.kind == MaskKind::hstu) options.add("causal", mask.hstu_causal, true, "0");
  if (mask.kind == MaskKind::intervals) {
    options.add("count", mask.intervals, kDefault.intervals, fmt::format("{}", mask.intervals));
  }
  return options.text(name_from(mask.kind, kMasks));
}

// --- bias= --------------------------------------------------------------------------------------

bool parse_each(std::string_view value) {
  return parse_name<int>(value, kShares) == 1;
}

void parse_dense(BiasSpec& bias, std::string_view options) {
  parse_options(options, {"sequences", "heads", "type"},
                [&](std::string_view name, std::string_view value) {
                  if (name == "sequences") bias.dense_each_sequence = parse_each(value);
                  if (name == "heads") bias.dense_each_head = parse_each(value);
                  if (name == "type") bias.dense_float32 = parse_name<int>(value, kDenseTypes) == 1;
                  return name == "sequences" || name == "heads" || name == "type";
                });
}

void parse_bias_part(BiasSpec& bias, std::string_view text) {
  const Pair pair = cut(text, ':');
  const bool has_options = pair.found;
  if (pair.before == "dense") {
    bias.dense = true;
    if (has_options) parse_dense(bias, pair.after);
  } else if (pair.before == "alibi") {
    bias.alibi = true;
    if (!has_options) return;
    parse_options(pair.after, {"sequences"}, [&](std::string_view name, std::string_view value) {
      if (name == "sequences") bias.alibi_each_sequence = parse_each(value);
      return name == "sequences";
    });
  } else if (pair.before == "position") {
    bias.position = 16;
    if (!has_options) return;
    parse_options(pair.after, {"n", "heads"}, [&](std::string_view name, std::string_view value) {
      if (name == "n") bias.position = parse_integer(value, 1, kMostElements);
      if (name == "heads") bias.position_each_head = parse_each(value);
      return name == "n" || name == "heads";
    });
  } else if (pair.before == "time") {
    bias.time = 64;
    if (!has_options) return;
    parse_options(pair.after, {"buckets", "heads", "scale"},
                  [&](std::string_view name, std::string_view value) {
                    if (name == "buckets") bias.time = parse_integer(value, 1, kMostElements);
                    if (name == "heads") bias.time_each_head = parse_each(value);
                    if (name == "scale") bias.time_scale = parse_real(value);
                    return name == "buckets" || name == "heads" || name == "scale";
                  });
  } else {
    throw TextError(pair.before,
                    "unknown bias; allowed: none, or dense, alibi, position and time joined by +");
  }
}

void parse_bias(Problem& problem, std::string_view text) {
  if (text == "none") return;
  for (const std::string_view part : split(text, '+')) parse_bias_part(problem.bias, part);
}

std::string each_text(bool each) {
  return std::string(kShares.at(each ? 1 : 0));
}

Text bias_text(const Problem& problem) {
  static const BiasSpec kDefault;
  const BiasSpec& bias = problem.bias;
  std::vector<std::string> parts;
  if (bias.dense) {
    OptionText options;
    options.add("sequences", bias.dense_each_sequence, true, "one");
    options.add("heads", bias.dense_each_head, true, "one");
    options.add("type", bias.dense_float32, true, "q");
    parts.push_back(options.text("dense"));
  }
  if (bias.alibi) {
    OptionText options;
    options.add("sequences", bias.alibi_each_sequence, false, "each");
    parts.push_back(options.text("alibi"));
  }
  if (bias.position > 0) {
    OptionText options;
    options.add("n", bias.position, std::int64_t{16}, fmt::format("{}", bias.position));
    options.add("heads", bias.position_each_head, true, each_text(bias.position_each_head));
    parts.push_back(options.text("position"));
  }
  if (bias.time > 0) {
    OptionText options;
    options.add("buckets", bias.time, std::int64_t{64}, fmt::format("{}", bias.time));
    options.add("heads", bias.time_each_head, true, each_text(bias.time_each_head));
    options.add("scale", bias.time_scale, kDefault.time_scale, real_text(bias.time_scale));
    parts.push_back(options.text("time"));
  }
  if (parts.empty()) return {};
  return fmt::format("{}", fmt::join(parts, "+"));
}

// --- grads= -------------------------------------------------------------------------------------

void parse_gradients(Problem& problem, std::string_view text) {
  problem.gradients = {false, false, false, false};
  GradientSpec& wanted = problem.gradients;
  for (const std::string_view name : split(text, '+')) {
    if (name == "all") {
      wanted = {};
    } else if (name == "q") {
      wanted.q = true;
    } else if (name == "k") {
      wanted.k = true;
    } else if (name == "v") {
      wanted.v = true;
    } else if (name == "bias") {
      wanted.bias = true;
    } else {
      throw TextError(name, "unknown gradient; allowed: all, or q, k, v and bias joined by +");
    }
  }
}

Text gradients_text(const Problem& problem) {
  const GradientSpec& wanted = problem.gradients;
  if (wanted == GradientSpec{}) return {};
  std::vector<std::string_view> names;
  if (wanted.q) names.emplace_back("q");
  if (wanted.k) names.emplace_back("k");
  if (wanted.v) names.emplace_back("v");
  if (wanted.bias) names.emplace_back("bias");
  return fmt::format("{}", fmt::join(names, "+"));
}

// --- the table ----------------------------------------------------------------------------------

// Prints a whole number that differs from the default.
Text unless(std::int64_t value, std::int64_t fallback) {
  if (value == fallback) return {};
  return fmt::format("{}", value);
}

Text unless_real(double value, double fallback) {
  if (value == fallback) return {};
  return real_text(value);
}

// A field that is one whole number of Problem or of its memory.
template <std::int64_t Problem::*kMember, std::int64_t kMinimum, std::int64_t kMaximum>
void parse_member(Problem& problem, std::string_view text) {
  problem.*kMember = parse_integer(text, kMinimum, kMaximum);
}

template <std::int64_t MemorySpec::*kMember, std::int64_t kMaximum>
constexpr Field memory_field(std::string_view key, std::string_view values) {
  return {key, values,
          [](Problem& p, std::string_view text) {
            p.memory.*kMember = parse_integer(text, 0, kMaximum);
          },
          [](const Problem& p) { return unless(p.memory.*kMember, 0); }};
}

constexpr std::array<Field, 26> kFields = {{
    {"d", "head dimension of q and k, default 64", parse_member<&Problem::dim, 1, kMostElements>,
     [](const Problem& p) { return Text(fmt::format("{}", p.dim)); }},
    {"dv", "head dimension of v, default d", parse_member<&Problem::value_dim, 1, kMostElements>,
     [](const Problem& p) { return unless(p.value_dim, p.dim); }},
    {"h", "query heads, default 1", parse_member<&Problem::heads, 1, kMostElements>,
     [](const Problem& p) { return Text(fmt::format("{}", p.heads)); }},
    {"hkv", "key heads, default h", parse_member<&Problem::kv_heads, 1, kMostElements>,
     [](const Problem& p) { return unless(p.kv_heads, p.heads); }},
    {"act", "softmax, silu, gelu, gelu_tanh, relu, relu2, leaky_relu, hardswish or identity",
     [](Problem& p, std::string_view text) {
       p.activation = parse_name<Activation>(text, kActivations);
     },
     [](const Problem& p) -> Text {
       if (p.activation == Activation::softmax) return {};
       return std::string(name_from(p.activation, kActivations));
     }},
    {"slope", "slope of leaky_relu, default 0.01",
     [](Problem& p, std::string_view text) { p.leaky_slope = parse_real(text); },
     [](const Problem& p) { return unless_real(p.leaky_slope, 0.01); }},
    {"scale", "factor of q·k, default 1/√d for softmax, else 1",
     [](Problem& p, std::string_view text) { p.scale = parse_real(text); },
     [](const Problem& p) -> Text {
       if (!p.scale) return {};
       return real_text(*p.scale);
     }},
    {"out_scale", "factor of the output, default 1",
     [](Problem& p, std::string_view text) { p.out_scale = parse_real(text); },
     [](const Problem& p) { return unless_real(p.out_scale, 1); }},
    {"out_scales", "uniform, sequence or token: further factors, drawn",
     [](Problem& p, std::string_view text) {
       p.out_scales = parse_name<OutScale>(text, kOutScales);
     },
     [](const Problem& p) -> Text {
       if (p.out_scales == OutScale::uniform) return {};
       return std::string(name_from(p.out_scales, kOutScales));
     }},
    {"mask",
     "full, causal, window:left=,right=, hstu:contextual=,targets=,group=,window=,full=,causal=, "
     "prefix_local:prefix=,local=, blocks:size=, intervals:count=; a/b/c gives sequences different "
     "values in turn",
     parse_mask, mask_text},
    {"align", "bottom_right or top_left",
     [](Problem& p, std::string_view text) {
       p.mask.alignment = parse_name<Alignment>(text, kAlignments);
     },
     [](const Problem& p) -> Text {
       if (p.mask.alignment == Alignment::bottom_right) return {};
       return std::string(name_from(p.mask.alignment, kAlignments));
     }},
    {"bias",
     "none, or joined by +: dense:sequences=,heads=,type=, alibi:sequences=, position:n=,heads=, "
     "time:buckets=,heads=,scale=; sequences and heads are one or each",
     parse_bias, bias_text},
    {"q",
     "lengths (17,0,1024x16; uniform:…, lognormal:…, zipf:…, @file), dense:batch=,rows= or "
     "broadcast:rows=",
     [](Problem& p, std::string_view text) { p.q = parse_sequences(text); },
     [](const Problem& p) { return Text(sequences_text(p.q)); }},
    {"kv", "same, or as q; default same",
     [](Problem& p, std::string_view text) {
       p.kv.reset();
       if (text != "same") p.kv = parse_sequences(text);
     },
     [](const Problem& p) -> Text {
       if (!p.kv) return {};
       return sequences_text(*p.kv);
     }},
    {"kv_map", "key sequence of each query sequence (0,0,1x3), or share:n for b / n", parse_kv_map,
     kv_map_text},
    {"batch", "number of sequences, needed when q and kv are both broadcast",
     parse_member<&Problem::batch, 0, kMostSequences>,
     [](const Problem& p) { return unless(p.batch, -1); }},
    {"grads", "all, or q, k, v and bias joined by +", parse_gradients, gradients_text},
    memory_field<&MemorySpec::offset0, kMostElements>("offset0", "rows before the first sequence"),
    memory_field<&MemorySpec::slack, kMostElements>("slack", "rows after the last sequence"),
    {"holes", "unused rows at the end of each sequence; a/b/c in turn",
     [](Problem& p, std::string_view text) {
       p.memory.holes = parse_values(text, 0, kMostElements);
     },
     [](const Problem& p) -> Text {
       if (p.memory.holes == SequenceValues{0}) return {};
       return values_text(p.memory.holes);
     }},
    memory_field<&MemorySpec::head_gap, kMostElements>("headgap", "elements between heads"),
    memory_field<&MemorySpec::row_gap, kMostElements>("rowgap", "elements between rows"),
    memory_field<&MemorySpec::misalign, 63>(
        "misalign", "elements by which addresses miss a multiple of 64 bytes"),
    {"magnitude", "standard deviation of scale·q·k, default 1",
     [](Problem& p, std::string_view text) {
       p.magnitude = parse_real(text);
       if (p.magnitude < 0) throw TextError(text, "must be at least 0");
     },
     [](const Problem& p) { return unless_real(p.magnitude, 1); }},
    {"shift", "added to every scale·q·k, default 0",
     [](Problem& p, std::string_view text) { p.shift = parse_real(text); },
     [](const Problem& p) { return unless_real(p.shift, 0); }},
    {"seed", "of all random numbers, default 1",
     [](Problem& p, std::string_view text) { p.seed = parse_unsigned(text); },
     [](const Problem& p) -> Text {
       if (p.seed == 1) return {};
       return fmt::format("{}", p.seed);
     }},
}};

constexpr std::array<Flag, 4> kFlags = {{
    {"fused", "q, k and v are views of one buffer (k and v, if kv is not same)",
     [](Problem& p) -> bool& { return p.memory.fused; }},
    {"int64", "offsets, lengths and kv_map are int64, else int32",
     [](Problem& p) -> bool& { return p.memory.int64_offsets; }},
    {"expanded", "d_out is one number, all strides 0",
     [](Problem& p) -> bool& { return p.memory.expanded_gradient; }},
    {"deterministic", "backward gives the same bits every time",
     [](Problem& p) -> bool& { return p.deterministic; }},
}};

}  // namespace

std::span<const Field> fields() {
  return kFields;
}
std::span<const Flag> flags() {
  return kFlags;
}

std::optional<DType> dtype_of(std::string_view word) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    if (word == word_of(dtype) || word == name_of(dtype)) return dtype;
  }
  return {};
}

std::string_view word_of(DType dtype) {
  if (dtype == DType::float32) return "fp32";
  return dtype == DType::float16 ? "fp16" : "bf16";
}

std::optional<Direction> direction_of(std::string_view word) {
  if (word == "fwd") return Direction::forward;
  if (word == "bwd") return Direction::backward;
  return {};
}

std::string_view word_of(Direction direction) {
  return direction == Direction::forward ? "fwd" : "bwd";
}

}  // namespace jfa::detail
