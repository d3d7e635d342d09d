#include "jit/hash.hpp"

#include <gtest/gtest.h>

#include <string>

namespace jfa::jit {
namespace {

// The sanity checks of the xxHash project: prefixes of a fixed byte sequence, two seeds.
std::string sanity_buffer(std::size_t size) {
  std::string buffer;
  std::uint64_t generator = 2654435761U;
  for (std::size_t i = 0; i < size; ++i) {
    buffer.push_back(static_cast<char>(generator >> 56));
    generator *= 11400714785074694797ULL;
  }
  return buffer;
}

TEST(Hash, MatchesPublishedValues) {
  EXPECT_EQ(hash64(""), 0xEF46DB3751D8E999ULL);
  EXPECT_EQ(hash64("a"), 0xD24EC4F1A98C6E5BULL);
  EXPECT_EQ(hash64("abc"), 0x44BC2CF5AD770999ULL);
  EXPECT_EQ(hash64("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1ULL);
  EXPECT_EQ(hash64("", 2654435761U), 0xAC75FDA2929B17EFULL);
}

TEST(Hash, EveryByteAndTheLengthCount) {
  const std::string data = sanity_buffer(101);
  const std::uint64_t whole = hash64(data);
  for (std::size_t i = 0; i < data.size(); ++i) {
    std::string changed = data;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_NE(hash64(changed), whole) << i;
    EXPECT_NE(hash64(data.substr(0, i)), whole) << i;
  }
}

TEST(Hash, NamesHave32Digits) {
  EXPECT_EQ(hash_name("x").size(), 32U);
  EXPECT_EQ(hash_name("x").find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(hash_name("x").substr(0, 16), hash_name("x").substr(16));
  EXPECT_EQ(hexadecimal(0x1f), "000000000000001f");
}

}  // namespace
}  // namespace jfa::jit
