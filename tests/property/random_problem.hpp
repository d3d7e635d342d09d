// Draws small problems that reach into every corner of the contract.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "jfa/problem.hpp"

namespace jfa::testing {

// Problem number `number` of a fixed sequence.
Problem random_problem(std::uint64_t number);

// "17,0,513"
std::string list_text(const std::vector<std::int64_t>& lengths);

}  // namespace jfa::testing
