// Shadow of a memory: for every byte the last write, the reads since, and whether it holds data.
//
// Memory is kept in 16-byte blocks. A block that is always accessed as a whole has one cell; the
// first partial access splits it into a cell per byte, a whole write joins it again. Sets of
// readers are interned, so a cell is two numbers and equal neighbours are judged once.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "check/records.hpp"

namespace ptxemu::check {

/// Readers of a cell: 0 = none, one reader = its record id, more = index into a table with the top
/// bit set.
using ReaderSet = std::uint32_t;

/// Interned sets of reader records.
class ReaderSets {
 public:
  /// `set` with `reader` added; readers for which `superseded` holds are dropped.
  template <class Superseded>
  ReaderSet add(ReaderSet set, RecordId reader, Superseded&& superseded);
  template <class Visit>
  void for_each(ReaderSet set, Visit&& visit) const;
  void clear() {
    sets_.clear();
    index_.clear();
    added_.clear();
  }

 private:
  static constexpr ReaderSet kMany = 0x80000000u;
  ReaderSet intern(std::vector<RecordId> readers);

  std::vector<std::vector<RecordId>> sets_;
  std::unordered_map<std::uint64_t, std::vector<ReaderSet>> index_;  // by hash of the members
  std::unordered_map<std::uint64_t, ReaderSet> added_;               // (set, reader) -> result
};

struct Cell {
  RecordId write = 0;
  ReaderSet readers = 0;
  friend bool operator==(const Cell&, const Cell&) = default;
};

/// Shadow of one contiguous piece of memory.
class Shadow {
 public:
  static constexpr std::uint64_t kBlock = 16;
  Shadow(std::uint64_t bytes, bool initialised);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Calls `visit(Cell&, offset, bytes)` for the cells of [offset, offset + bytes). With `whole`,
  /// cells that the visit made equal are joined again (writes).
  template <class Visit>
  void visit(std::uint64_t offset, std::uint64_t bytes, bool joins, Visit&& visit);
  /// Forgets accesses, keeps what is initialised.
  void forget_accesses();

  [[nodiscard]] bool initialised(std::uint64_t offset, std::uint64_t bytes) const;
  void set_initialised(std::uint64_t offset, std::uint64_t bytes, bool value);

 private:
  static constexpr std::uint32_t kWhole = 0xffffffffu;
  using Bytes = std::array<Cell, kBlock>;
  struct Block {
    Cell cell;
    std::uint32_t bytes = kWhole;  // index into `split_`
  };
  Bytes& split(Block& block);

  std::uint64_t size_;
  std::vector<Block> blocks_;  // made at the first access
  std::vector<Bytes> split_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint16_t> initialised_;  // one bit per byte
};

template <class Superseded>
ReaderSet ReaderSets::add(ReaderSet set, RecordId reader, Superseded&& superseded) {
  if (set == 0 || set == reader) return reader;
  if ((set & kMany) == 0) {
    if (superseded(set)) return reader;
  }
  const std::uint64_t key = std::uint64_t{set} << 32 | reader;
  if (const auto known = added_.find(key); known != added_.end()) return known->second;
  std::vector<RecordId> readers;
  for_each(set, [&](RecordId old) {
    if (old != reader && !superseded(old)) readers.push_back(old);
  });
  readers.push_back(reader);
  const ReaderSet result = readers.size() == 1 ? reader : intern(std::move(readers));
  added_.emplace(key, result);
  return result;
}

template <class Visit>
void ReaderSets::for_each(ReaderSet set, Visit&& visit) const {
  if (set == 0) return;
  if ((set & kMany) == 0) {
    visit(RecordId{set});
    return;
  }
  for (const RecordId reader : sets_[set & ~kMany]) visit(reader);
}

template <class Visit>
void Shadow::visit(std::uint64_t offset, std::uint64_t bytes, bool joins, Visit&& visit) {
  if (offset >= size_ || bytes == 0) return;
  bytes = std::min(bytes, size_ - offset);
  if (blocks_.empty()) blocks_.resize((size_ + kBlock - 1) / kBlock);
  const std::uint64_t end = offset + bytes;
  while (offset < end) {
    Block& block = blocks_[offset / kBlock];
    const std::uint64_t start = offset / kBlock * kBlock;
    const std::uint64_t stop = std::min(end, start + kBlock);
    const bool whole = offset == start && stop == start + kBlock;
    if (whole && block.bytes == kWhole) {
      visit(block.cell, start, kBlock);
    } else {
      Bytes& cells = split(block);
      // Neighbouring equal cells are visited as one and share the result.
      for (std::uint64_t at = offset; at < stop;) {
        const Cell before = cells[at - start];
        std::uint64_t run = at + 1;
        while (run < stop && cells[run - start] == before) ++run;
        Cell after = before;
        visit(after, at, run - at);
        for (; at < run; ++at) cells[at - start] = after;
      }
      if (whole && joins) {
        block.cell = cells[0];
        free_.push_back(block.bytes);
        block.bytes = kWhole;
      }
    }
    offset = stop;
  }
}

}  // namespace ptxemu::check
