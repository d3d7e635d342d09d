// One-line problems: a complete, reproducible attention problem in one line of text.
// docs/notation.md has the grammar.
//
//   fwd bf16 d=128 h=4 mask=full q=17,0,513
//   bwd fp16 d=64 dv=128 h=8 hkv=2 mask=causal q=lognormal:batch=1152,clip=1000,seed=1
//   fwd bf16 d=128 h=4 act=silu mask=hstu:contextual=2,targets=20,window=0 q=@lengths.txt kv=same
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jfa/attention.hpp"
#include "jfa/device.hpp"

namespace jfa {

enum class Direction : std::uint8_t { forward, backward };

// The lengths of the sequences of one side, as written: a list ("17,0,513"),
// "uniform:batch=,max=,fill=,seed=", "lognormal:batch=,clip=,sigma=,scale=,loc=,seed=",
// "zipf:batch=,clip=,a=,seed=", or "@file" (one length a line). A list entry may be repeated:
// "1024x16". Deterministic on every platform.
struct LengthSpec {
  std::string text;

  bool operator==(const LengthSpec&) const = default;
};

// Throws InvalidArgument with the position in the text, or when a file cannot be read.
std::vector<std::int64_t> generate_lengths(const LengthSpec& spec);

// What a problem says, one member a key of the notation; defaults are the notation's defaults.
struct Problem;

// Throws InvalidArgument that shows the line, marks the place and lists what is allowed there.
Problem parse_problem(std::string_view line);

// Canonical line: defaults are left out, keys in a fixed order; parse_problem(to_string(p)) == p.
std::string to_string(const Problem& problem);

}  // namespace jfa
