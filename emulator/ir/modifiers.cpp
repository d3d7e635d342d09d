// Parses modifier specifications and matches an instruction's modifiers against them.
#include "ir/modifiers.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace ptxemu::ir {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kSets{{
    {"@int", "u16|u32|u64|s16|s32|s64"},
    {"@int32", "u32|u64|s32|s64"},
    {"@bits", "b16|b32|b64"},
    {"@half", "f16|f16x2|bf16|bf16x2"},
    {"@memory", "b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f16|bf16|f16x2|bf16x2|f32|f64"},
    {"@scalar",
     "pred|b16|b32|b64|b128|u16|u32|u64|s16|s32|s64|f16|f16x2|bf16|bf16x2|f32|f32x2|f64"},
    {"@compare", "eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan"},
    {"@rounding", "rn|rz|rm|rp"},
    {"@scope", "cta|cluster|gpu|sys"},
    {"@space",
     "global|shared|shared::cta|shared::cluster|local|param|param::entry|param::func|const"},
    {"@shared", "shared|shared::cta|shared::cluster"},
    {"@evict1",
     "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"},
    {"@evict2", "L2::evict_normal|L2::evict_first|L2::evict_last"},
    {"@prefetch", "L2::64B|L2::128B|L2::256B"},
}};

void add_alternatives(std::string_view text, std::vector<std::string_view>& out) {
  while (!text.empty()) {
    const std::size_t bar = std::min(text.find('|'), text.size());
    const std::string_view word = text.substr(0, bar);
    const auto* set = std::find_if(kSets.begin(), kSets.end(),
                                   [&](const auto& entry) { return entry.first == word; });
    if (set != kSets.end()) {
      add_alternatives(set->second, out);
    } else {
      out.push_back(word);
    }
    text.remove_prefix(std::min(bar + 1, text.size()));
  }
}

std::string join(const ModifierGroup& group) {
  std::string text;
  for (const std::string_view alternative : group.alternatives) {
    if (!text.empty()) text += '|';
    text += '.';
    text += alternative;
  }
  return text;
}

/// "m64n#k16" stands for any number in place of `#`.
bool matches(std::string_view pattern, std::string_view text) {
  while (!pattern.empty()) {
    if (pattern.front() == '#') {
      if (text.empty() || text.front() < '0' || text.front() > '9') return false;
      while (!text.empty() && text.front() >= '0' && text.front() <= '9') text.remove_prefix(1);
    } else {
      if (text.empty() || text.front() != pattern.front()) return false;
      text.remove_prefix(1);
    }
    pattern.remove_prefix(1);
  }
  return text.empty();
}

}  // namespace

ModifierSpec::ModifierSpec(std::string_view text) {
  while (!text.empty()) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, blank);
    text.remove_prefix(std::min(blank + 1, text.size()));
    if (word.empty()) continue;
    ModifierGroup group;
    if (word.back() == '+') {
      group.repeated = true;
      word.remove_suffix(1);
    }
    if (word.front() == '[') {
      group.optional = true;
      word = word.substr(1, word.size() - 2);
    }
    add_alternatives(word, group.alternatives);
    groups_.push_back(std::move(group));
  }
}

std::string ModifierSpec::check(const std::vector<std::string_view>& modifiers) const {
  std::vector<unsigned> used(groups_.size());
  for (const std::string_view modifier : modifiers) {
    bool known = false;
    bool placed = false;
    for (std::size_t g = 0; g < groups_.size() && !placed; ++g) {
      const auto& alternatives = groups_[g].alternatives;
      if (std::none_of(alternatives.begin(), alternatives.end(),
                       [&](std::string_view pattern) { return matches(pattern, modifier); }))
        continue;
      known = true;
      if (used[g] > 0 && !groups_[g].repeated) continue;
      ++used[g];
      placed = true;
    }
    if (!placed) {
      return "modifier '." + std::string(modifier) +
             (known ? "' is given twice or together with an alternative of it"
                    : "' is not supported") +
             "; supported: " + (groups_.empty() ? "none" : to_string());
    }
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (used[g] == 0 && !groups_[g].optional)
      return "one of the modifiers " + join(groups_[g]) + " is required";
  }
  return {};
}

std::string ModifierSpec::to_string() const {
  std::string text;
  for (const ModifierGroup& group : groups_) {
    if (!text.empty()) text += ' ';
    text += group.optional ? "[" + join(group) + "]" : join(group);
    if (group.repeated) text += '+';
  }
  return text;
}

}  // namespace ptxemu::ir
