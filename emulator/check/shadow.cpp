#include "check/shadow.hpp"

#include <algorithm>

namespace ptxemu::check {

ReaderSet ReaderSets::intern(std::vector<RecordId> readers) {
  std::sort(readers.begin(), readers.end());
  std::uint64_t hash = 1469598103934665603u;
  for (const RecordId reader : readers) hash = (hash ^ reader) * 1099511628211u;
  std::vector<ReaderSet>& candidates = index_[hash];
  for (const ReaderSet candidate : candidates) {
    if (sets_[candidate & ~kMany] == readers) return candidate;
  }
  const ReaderSet id = kMany | static_cast<ReaderSet>(sets_.size());
  sets_.push_back(std::move(readers));
  candidates.push_back(id);
  return id;
}

Shadow::Shadow(std::uint64_t bytes, bool initialised)
    : size_(bytes),
      initialised_((bytes + kBlock - 1) / kBlock,
                   initialised ? std::uint16_t{0xffff} : std::uint16_t{0}) {}

Shadow::Bytes& Shadow::split(Block& block) {
  if (block.bytes == kWhole) {
    if (free_.empty()) {
      block.bytes = static_cast<std::uint32_t>(split_.size());
      split_.emplace_back();
    } else {
      block.bytes = free_.back();
      free_.pop_back();
    }
    split_[block.bytes].fill(block.cell);
  }
  return split_[block.bytes];
}

void Shadow::forget_accesses() {
  blocks_.clear();
  split_.clear();
  free_.clear();
}

namespace {

/// Calls `visit(block, mask of bytes)` for every block of the range.
template <class Visit>
void for_each_block(std::uint64_t offset, std::uint64_t bytes, Visit&& visit) {
  const std::uint64_t end = offset + bytes;
  while (offset < end) {
    const std::uint64_t start = offset / Shadow::kBlock * Shadow::kBlock;
    const std::uint64_t stop = std::min(end, start + Shadow::kBlock);
    const auto mask =
        static_cast<std::uint16_t>(((1u << (stop - offset)) - 1u) << (offset - start));
    visit(start / Shadow::kBlock, mask);
    offset = stop;
  }
}

}  // namespace

bool Shadow::initialised(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset >= size_) return true;
  bool all = true;
  for_each_block(offset, std::min(bytes, size_ - offset),
                 [&](std::uint64_t block, std::uint16_t mask) {
                   all = all && (initialised_[block] & mask) == mask;
                 });
  return all;
}

void Shadow::set_initialised(std::uint64_t offset, std::uint64_t bytes, bool value) {
  if (offset >= size_) return;
  for_each_block(offset, std::min(bytes, size_ - offset),
                 [&](std::uint64_t block, std::uint16_t mask) {
                   std::uint16_t& bits = initialised_[block];
                   bits = static_cast<std::uint16_t>(value ? bits | mask : bits & ~mask);
                 });
}

}  // namespace ptxemu::check
