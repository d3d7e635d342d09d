// What a Plan holds.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "api/call.hpp"
#include "jfa/plan.hpp"
#include "plan/plan.h"

namespace jfa::gpu {
struct DevicePlan;
}

namespace jfa::detail {

// The query sequences that use one key sequence: members[first … first + count) of PlanData.
struct KeyGroup {
  std::int64_t kv_index = 0;
  std::int64_t k_first = 0;
  std::int64_t k_length = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t work = 0;  // about the visible pairs, one head
};

// Of the CPU; on other devices `device` has everything and the rest is empty.
struct PlanData {
  std::shared_ptr<const gpu::DevicePlan> device;
  Call call;
  Tensor mask_intervals;  // copied view; read only for MaskKind::intervals
  kernels::PlanRules rules;
  std::vector<kernels::Tile> tiles;   // longest first
  std::vector<std::int64_t> members;  // sequences with work, by key sequence, then batch order
  std::vector<KeyGroup> groups;       // longest first
};

// Most query rows of a tile on the CPU. Loading a block of keys costs as much as the products of
// about 30 rows, so tiles are large where there are enough of them.
constexpr std::int64_t kCpuTileRows = 512;

PlanData plan_call(const AttentionArgs& args, Call call, const kernels::PlanRules& rules);

// Rules of the CPU engine. It computes packed sequences one after the other, so that packing costs
// no isolation.
kernels::PlanRules cpu_plan_rules(const Call& call, int threads);

// Keys that row `row` of `sequence` sees, whatever the mask.
kernels::RowIntervals visible_intervals(const SequenceView& sequence, const Tensor& mask_intervals,
                                        std::int64_t row);

// Statistics of a plan whose engine skips keys in blocks of `key_block`.
PlanStatistics count_statistics(const PlanData& plan, std::int64_t key_block);

// Throws InvalidArgument when the plan was made for other offsets, lengths or masks than `call`
// has.
void check_plan_matches(const PlanData& plan, const Call& call);

}  // namespace jfa::detail
