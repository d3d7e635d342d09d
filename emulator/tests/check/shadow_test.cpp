// Shadow memory: cells per block or per byte, reader sets, initialised bits.
#include "check/shadow.hpp"

#include <gtest/gtest.h>

namespace ptxemu::check {
namespace {

std::vector<std::pair<std::uint64_t, std::uint64_t>> visited(Shadow& shadow, std::uint64_t offset,
                                                             std::uint64_t bytes, RecordId write,
                                                             bool joins = true) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
  shadow.visit(offset, bytes, joins, [&](Cell& cell, std::uint64_t at, std::uint64_t count) {
    pieces.emplace_back(at, count);
    cell.write = write;
  });
  return pieces;
}

RecordId write_at(Shadow& shadow, std::uint64_t offset) {
  RecordId found = 0;
  shadow.visit(offset, 1, false,
               [&](Cell& cell, std::uint64_t, std::uint64_t) { found = cell.write; });
  return found;
}

TEST(Shadow, WholeBlocksAreOneCellAndPartsAreSplit) {
  Shadow shadow(64, false);
  EXPECT_EQ(visited(shadow, 0, 32, 32).size(), 2u);
  EXPECT_EQ(visited(shadow, 4, 4, 64),
            (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{4, 4}}));
  EXPECT_EQ(write_at(shadow, 3), 32u);
  EXPECT_EQ(write_at(shadow, 7), 64u);
  EXPECT_EQ(write_at(shadow, 8), 32u);
  // A whole write sees three runs and joins them.
  EXPECT_EQ(visited(shadow, 0, 16, 96).size(), 3u);
  EXPECT_EQ(write_at(shadow, 7), 96u);
}

TEST(Shadow, RangesAreClippedToTheMemory) {
  Shadow shadow(20, false);
  EXPECT_EQ(visited(shadow, 16, 100, 32),
            (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{16, 4}}));
  EXPECT_TRUE(visited(shadow, 50, 4, 32).empty());
}

TEST(Shadow, InitialisedBitsHaveByteGrain) {
  Shadow shadow(64, false);
  EXPECT_FALSE(shadow.initialised(0, 1));
  shadow.set_initialised(3, 20, true);
  EXPECT_TRUE(shadow.initialised(3, 20));
  EXPECT_FALSE(shadow.initialised(2, 2));
  EXPECT_FALSE(shadow.initialised(22, 2));
  shadow.forget_accesses();
  EXPECT_TRUE(shadow.initialised(3, 20));
  EXPECT_TRUE(Shadow(16, true).initialised(0, 16));
}

TEST(ReaderSets, GrowDropAndAreShared) {
  ReaderSets sets;
  const auto keep = [](RecordId) { return false; };
  const ReaderSet one = sets.add(0, 32, keep);
  EXPECT_EQ(one, 32u);
  const ReaderSet two = sets.add(one, 64, keep);
  EXPECT_EQ(sets.add(one, 64, keep), two);
  std::vector<RecordId> readers;
  sets.for_each(two, [&](RecordId reader) { readers.push_back(reader); });
  EXPECT_EQ(readers, (std::vector<RecordId>{32, 64}));
  // A reader that knows the earlier ones supersedes them.
  EXPECT_EQ(sets.add(two, 96, [](RecordId) { return true; }), 96u);
}

}  // namespace
}  // namespace ptxemu::check
