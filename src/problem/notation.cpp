// parse_problem and to_string: a direction, a data type, then key=value and switches in any order.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "jfa/error.hpp"
#include "jfa/problem.hpp"
#include "problem/fields.hpp"
#include "problem/text.hpp"

namespace jfa {
namespace {

using detail::Field;
using detail::Flag;
using detail::TextError;

// Whether the word is the direction or the data type, which stand without a key.
bool parse_bare_word(Problem& problem, std::string_view word) {
  if (const auto direction = detail::direction_of(word)) {
    problem.direction = *direction;
    return true;
  }
  if (const auto dtype = detail::dtype_of(word)) {
    problem.dtype = *dtype;
    return true;
  }
  for (const Flag& flag : detail::flags()) {
    if (flag.word != word) continue;
    flag.of(problem) = true;
    return true;
  }
  return false;
}

std::string allowed_words() {
  std::vector<std::string_view> names = {"fwd", "bwd", "fp32", "bf16", "fp16"};
  for (const Flag& flag : detail::flags()) names.push_back(flag.word);
  return detail::alternatives(names);
}

std::string allowed_keys() {
  std::vector<std::string_view> names;
  for (const Field& field : detail::fields()) names.push_back(field.key);
  return detail::alternatives(names);
}

const Field& field_of(std::string_view key) {
  for (const Field& field : detail::fields()) {
    if (field.key == key) return field;
  }
  throw TextError(key, "unknown key; allowed: " + allowed_keys());
}

void parse_value(Problem& problem, const Field& field, std::string_view value) {
  try {
    field.parse(problem, value);
  } catch (const TextError& error) {
    throw TextError(error.place(), fmt::format("{}: {} ({}: {})", field.key, error.what(),
                                               field.key, field.values));
  }
}

Problem parse(std::string_view line) {
  Problem problem;
  problem.value_dim = 0;  // dv and hkv default to d and h, which may stand behind them
  problem.kv_heads = 0;
  bool has_direction = false;
  bool has_dtype = false;
  std::vector<std::string_view> keys;
  for (const std::string_view word : detail::words(line)) {
    const detail::Pair pair = detail::cut(word, '=');
    if (std::find(keys.begin(), keys.end(), pair.before) != keys.end()) {
      throw TextError(pair.before, "given twice");
    }
    keys.push_back(pair.before);
    if (pair.found) {
      parse_value(problem, field_of(pair.before), pair.after);
      continue;
    }
    if (!parse_bare_word(problem, word)) {
      throw TextError(word, "unknown word; allowed: " + allowed_words() +
                                ", and key=value with the keys " + allowed_keys());
    }
    const bool is_direction = detail::direction_of(word).has_value();
    const bool is_dtype = detail::dtype_of(word).has_value();
    if ((is_direction && has_direction) || (is_dtype && has_dtype)) {
      throw TextError(word, is_dtype ? "a second data type" : "a second direction");
    }
    has_direction = has_direction || is_direction;
    has_dtype = has_dtype || is_dtype;
  }
  const std::string_view end = line.substr(line.size());
  if (!has_direction) throw TextError(end, "the direction is missing: fwd or bwd");
  if (!has_dtype) throw TextError(end, "the data type is missing: fp32, bf16 or fp16");
  if (std::find(keys.begin(), keys.end(), "q") == keys.end()) {
    throw TextError(end, "the query lengths are missing: q=17,0,513");
  }
  if (problem.value_dim == 0) problem.value_dim = problem.dim;
  if (problem.kv_heads == 0) problem.kv_heads = problem.heads;
  return problem;
}

}  // namespace

Problem parse_problem(std::string_view line) {
  try {
    return parse(line);
  } catch (const TextError& error) {
    throw InvalidArgument("problem: " + detail::marked(line, error));
  }
}

std::string to_string(const Problem& problem) {
  std::string line =
      fmt::format("{} {}", detail::word_of(problem.direction), detail::word_of(problem.dtype));
  for (const Field& field : detail::fields()) {
    if (const auto value = field.print(problem)) line += fmt::format(" {}={}", field.key, *value);
  }
  Problem copy = problem;
  for (const Flag& flag : detail::flags()) {
    if (flag.of(copy)) line += fmt::format(" {}", flag.word);
  }
  return line;
}

std::string problem_notation() {
  std::string text = "fwd or bwd, then fp32, bf16 or fp16, then in any order\n";
  for (const Field& field : detail::fields()) {
    text += fmt::format("  {:<14} {}\n", fmt::format("{}=", field.key), field.values);
  }
  for (const Flag& flag : detail::flags()) {
    text += fmt::format("  {:<14} {}\n", flag.word, flag.meaning);
  }
  return text;
}

}  // namespace jfa
