// Mask parameters: one number for all sequences or one a sequence, checked and bounded.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>

#include "api/argument.hpp"
#include "api/resolve.hpp"
#include "api/scalar.hpp"
#include "jfa/error.hpp"

namespace jfa::detail {
namespace {

constexpr std::array kIntegerTypes = {DType::int32, DType::int64};
constexpr std::array<std::string_view, 7> kMaskNames = {
    "full", "causal", "window", "hstu", "prefix_local", "blocks", "intervals"};

// One parameter of Mask, the place it is resolved to, and the mask that it belongs to.
struct ParameterRule {
  std::string_view name;
  SequenceParameter Mask::*argument;
  long long kernels::MaskParameters::*resolved;
  MaskKind kind;
  std::int64_t minimum;
};

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::min();

constexpr std::array<ParameterRule, 10> kRules = {{
    {"mask.left", &Mask::left, &kernels::MaskParameters::left, MaskKind::window, kAny},
    {"mask.right", &Mask::right, &kernels::MaskParameters::right, MaskKind::window, kAny},
    {"mask.contextual", &Mask::contextual, &kernels::MaskParameters::contextual, MaskKind::hstu, 0},
    {"mask.targets", &Mask::targets, &kernels::MaskParameters::targets, MaskKind::hstu, 0},
    {"mask.target_group", &Mask::target_group, &kernels::MaskParameters::target_group,
     MaskKind::hstu, 1},
    {"mask.max_attention_length", &Mask::max_attention_length,
     &kernels::MaskParameters::max_attention_length, MaskKind::hstu, 0},
    {"mask.min_full_attention", &Mask::min_full_attention,
     &kernels::MaskParameters::min_full_attention, MaskKind::hstu, 0},
    {"mask.prefix", &Mask::prefix, &kernels::MaskParameters::prefix, MaskKind::prefix_local, 0},
    {"mask.local", &Mask::local, &kernels::MaskParameters::local, MaskKind::prefix_local, 0},
    {"mask.block", &Mask::block, &kernels::MaskParameters::block, MaskKind::blocks, 1},
}};

void check_minimum(std::string_view name, std::int64_t value, std::int64_t minimum) {
  if (value >= minimum) return;
  throw InvalidArgument(fmt::format("{} = {}; it must be at least {}", name, value, minimum));
}

// Refuses what would have no effect: a window given to a causal mask is a misunderstanding.
void check_unused(const Mask& mask, const ParameterRule& rule) {
  static const Mask kDefault;
  const SequenceParameter& parameter = mask.*rule.argument;
  if (!parameter.per_sequence.present() && parameter.value == (kDefault.*rule.argument).value) {
    return;
  }
  throw InvalidArgument(fmt::format(
      "{}: set, but the mask is {} and only {} uses it; leave it at its default or change "
      "mask.kind",
      rule.name, kMaskNames.at(static_cast<std::size_t>(mask.kind)),
      kMaskNames.at(static_cast<std::size_t>(rule.kind))));
}

void check_parameter(const Mask& mask, const ParameterRule& rule, const CallShape& shape) {
  const SequenceParameter& parameter = mask.*rule.argument;
  if (!parameter.per_sequence.present()) {
    check_minimum(rule.name, parameter.value, rule.minimum);
    return;
  }
  const Argument argument{rule.name, parameter.per_sequence};
  check_memory(argument);
  check_type(argument, kIntegerTypes, "cast it");
  check_shape(argument, {{"batch", shape.batch}});
}

void resolve_parameter(const Mask& mask, const ParameterRule& rule, Call& call) {
  const SequenceParameter& parameter = mask.*rule.argument;
  const Tensor& values = parameter.per_sequence;
  for (SequenceView& sequence : call.sequences) {
    std::int64_t value = parameter.value;
    if (values.present()) {
      value = integer_at(values, sequence.index * values.strides[0]);
      if (value < rule.minimum) {
        check_minimum(fmt::format("{}[{}]", rule.name, sequence.index), value, rule.minimum);
      }
    }
    sequence.mask.*rule.resolved = value;
  }
}

// Clamps counts to the sequence, and bounds every number so that engines can add without overflow:
// beyond Lq + Lk + 1 no value makes a difference.
void bound(SequenceView& sequence) {
  kernels::MaskParameters& mask = sequence.mask;
  const long long most = sequence.q_length + sequence.k_length + 1;
  for (const ParameterRule& rule : kRules) {
    mask.*rule.resolved = std::clamp<long long>(mask.*rule.resolved, -1, most);
  }
  mask.targets = std::min<long long>(mask.targets, sequence.k_length);
  mask.contextual = std::min<long long>(mask.contextual, sequence.k_length - mask.targets);
}

void check_intervals(const Mask& mask, const CallShape& shape) {
  if (!mask.intervals.present()) {
    if (mask.kind != MaskKind::intervals) return;
    throw InvalidArgument(
        "mask.intervals: missing; mask intervals needs int32 [query rows, 2] or [query rows, 4]");
  }
  if (mask.kind != MaskKind::intervals) {
    throw InvalidArgument(fmt::format(
        "mask.intervals: present, but the mask is {}; leave it out or set mask.kind to intervals",
        kMaskNames.at(static_cast<std::size_t>(mask.kind))));
  }
  const Argument argument{"mask.intervals", mask.intervals};
  check_memory(argument);
  check_type(argument, std::array{DType::int32}, "cast it");
  const bool two = mask.intervals.rank == 2 && mask.intervals.shape[1] == 4;
  check_shape(argument, {{"query rows of out", shape.out_rows}, {"2 or 4", two ? 4 : 2}});
}

}  // namespace

void check_mask(const Mask& mask, const CallShape& shape) {
  if (mask.kind > MaskKind::intervals) {
    throw InvalidArgument(
        fmt::format("mask.kind: {} is not a value of MaskKind", static_cast<int>(mask.kind)));
  }
  if (mask.alignment > Alignment::top_left) {
    throw InvalidArgument(fmt::format("mask.alignment: {} is not a value of Alignment",
                                      static_cast<int>(mask.alignment)));
  }
  check_intervals(mask, shape);
  for (const ParameterRule& rule : kRules) {
    if (mask.kind == rule.kind) {
      check_parameter(mask, rule, shape);
    } else {
      check_unused(mask, rule);
    }
  }
}

void resolve_mask(const Mask& mask, Call& call) {
  for (SequenceView& sequence : call.sequences) {
    sequence.mask.kind = static_cast<int>(mask.kind);
    sequence.mask.bottom_right = mask.alignment == Alignment::bottom_right ? 1 : 0;
    sequence.mask.hstu_causal = mask.hstu_causal ? 1 : 0;
  }
  for (const ParameterRule& rule : kRules) {
    if (mask.kind == rule.kind) resolve_parameter(mask, rule, call);
  }
  for (SequenceView& sequence : call.sequences) bound(sequence);
}

}  // namespace jfa::detail
