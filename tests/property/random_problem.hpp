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

// Problem number `number` of those that GPU kernels serve: forward, 16-bit, small enough for a PTX
// machine. The first `kernels` of a fixed sequence of kernels are used in turn, since each has to
// be compiled; 40 of them have every head dimension, activation and mask.
Problem random_device_problem(std::uint64_t number, std::uint64_t kernels);

// "17,0,513"
std::string list_text(const std::vector<std::int64_t>& lengths);

}  // namespace jfa::testing
