// XXH64 (Yann Collet, xxHash specification 0.1.1): a fast hash of 64 bits. It names cache entries
// and finds damaged ones; it is no protection against an attacker, who could write the cache
// anyway.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace jfa::jit {

std::uint64_t hash64(std::string_view data, std::uint64_t seed = 0);

// 128 bits as 32 hexadecimal digits, from two seeds.
std::string hash_name(std::string_view data);

// 16 hexadecimal digits.
std::string hexadecimal(std::uint64_t value);

}  // namespace jfa::jit
