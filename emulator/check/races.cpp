#include "check/races.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "check/describe.hpp"

namespace ptxemu::check {

using exec::AccessKind;
using exec::AgentKind;
using exec::Proxy;

Races::Races(const exec::ClusterView& view, Synchronisation& synchronisation, GlobalShadow& global,
             exec::ReportSink& sink)
    : view_(view), synchronisation_(synchronisation), global_(global), sink_(sink) {
  for (std::uint32_t cta = 0; cta < view.cta_count(); ++cta) {
    shared_.emplace_back(view.shared_memory(cta).size(), false);
  }
}

Record Races::make_record(const exec::Access& access, const std::shared_ptr<Operation>& operation) {
  Record record;
  record.instruction = access.instruction;
  record.sequence = synchronisation_.next_sequence();
  record.cluster = synchronisation_.cluster();
  record.operation = operation;
  record.lanes = access.lanes;
  record.proxy = access.proxy;
  record.kind = access.kind;
  record.strong = access.kind == AccessKind::atomic || access.semantics != ir::Semantics::weak;
  if (operation != nullptr) {
    record.agent = operation->issuer;
    record.cta = operation->issue.cta;
    record.warp = operation->issue.warp;
  } else {
    record.agent = synchronisation_.warp_id(access.agent.cta, access.agent.index);
    record.cta = access.agent.cta;
    record.warp = access.agent.index;
    record.time = synchronisation_.order().time_of_access(record.agent);
  }
  record.cta_id = view_.cta_id(record.cta);
  return record;
}

void Races::on_access(const exec::Access& access) {
  const bool shared = access.space == ir::Space::shared;
  if (!shared && access.space != ir::Space::global) return;
  std::shared_ptr<Operation> operation;
  if (access.operation != 0) {
    operation = synchronisation_.operation(access.operation);
    if (operation == nullptr || operation->knowledge.empty()) return;
  } else if (access.agent.kind != AgentKind::warp) {
    return;
  }
  std::unique_lock<std::mutex> lock;
  if (!shared) lock = std::unique_lock(global_.mutex);
  Memory memory{nullptr, shared ? &shared_records_ : &global_.records,
                shared ? &shared_readers_ : &global_.readers};
  Actor actor;
  actor.shared = shared;
  actor.memory_cta = access.cta;
  const RecordId first = memory.records->add(make_record(access, operation));
  actor.record = &(*memory.records)[first];
  const auto check = [&](std::uint64_t address, std::uint64_t bytes) {
    std::uint64_t offset = address;
    memory.shadow = shared ? &shared_[access.cta] : global_.find(address, offset);
    if (memory.shadow != nullptr) check_range(actor, memory, offset, bytes, address);
  };
  if (operation != nullptr) {
    actor.id = first;
    for (const exec::Access::Range& range : access.ranges) check(range.address, range.bytes);
    return;
  }
  for (LaneMask lanes = access.lanes; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
    actor.id = first + lane;
    actor.silent = access.kind == AccessKind::write && stores_same_value(access, lane);
    check(access.addresses[lane], access.bytes);
  }
}

bool Races::stores_same_value(const exec::Access& access, unsigned lane) const {
  const std::span<const ir::Operand> values = access.instruction->list;
  if (access.instruction->category != ir::Category::store || values.empty()) return false;
  const std::byte* target = access.space == ir::Space::shared
                                ? view_.shared_memory(access.cta).data() + access.addresses[lane]
                                : reinterpret_cast<const std::byte*>(access.addresses[lane]);
  const std::byte* registers = view_.registers(access.agent.cta, access.agent.index);
  const std::size_t part = access.bytes / values.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ir::Operand& value = values[i];
    if (value.bank != ir::Bank::registers && value.bank != ir::Bank::constants) return false;
    const std::byte* row = (value.is_register() ? registers : view_.constants()) + value.offset;
    const std::size_t slot = value.width == ir::Width::bits128  ? 16
                             : value.width == ir::Width::bits64 ? 8
                                                                : 4;
    if (std::memcmp(row + slot * lane, target + i * part, part) != 0) return false;
  }
  return true;
}

void Races::check_range(const Actor& actor, const Memory& memory, std::uint64_t offset,
                        std::uint64_t bytes, std::uint64_t address) {
  const bool writes = actor.record->kind != AccessKind::read;
  // Equal neighbours get equal verdicts: judge the first, copy the result.
  bool judged = false;
  Cell before, after;
  memory.shadow->visit(offset, bytes, writes, [&](Cell& cell, std::uint64_t at, std::uint64_t) {
    if (!judged || cell != before) {
      before = cell;
      check_cell(actor, memory, cell, address + (at - offset));
      after = cell;
      judged = true;
    } else {
      cell = after;
    }
  });
}

void Races::check_cell(const Actor& actor, const Memory& memory, Cell& cell,
                       std::uint64_t address) {
  if (cell.write != 0) check_pair(actor, memory, cell.write, address);
  if (actor.record->kind == AccessKind::read) {
    cell.readers = memory.readers->add(cell.readers, actor.id, [&](RecordId reader) {
      return ordered(actor, (*memory.records)[reader], Records::lane(reader));
    });
    return;
  }
  memory.readers->for_each(cell.readers,
                           [&](RecordId reader) { check_pair(actor, memory, reader, address); });
  cell.write = actor.id;
  cell.readers = 0;
}

bool Races::known(const Knowledge& knowledge, const Actor& actor, const Record& prior,
                  unsigned prior_lane) const {
  const VectorClock* clock = &knowledge.seen;
  if (prior.cluster != synchronisation_.cluster()) {
    const auto foreign = knowledge.foreign.find(prior.cluster);
    if (foreign == knowledge.foreign.end()) return false;
    clock = &foreign->second->seen;
  }
  if (prior.operation != nullptr) {
    return Synchronisation::knows_completion(*clock, *prior.operation,
                                             prior.kind == AccessKind::read, actor.memory_cta);
  }
  return clock->covers(prior.agent, prior.time, prior_lane);
}

bool Races::ordered(const Actor& actor, const Record& prior, unsigned prior_lane) const {
  const Record& now = *actor.record;
  if (now.operation != nullptr) {
    if (prior.operation == now.operation) return true;
    return std::all_of(now.operation->knowledge.begin(), now.operation->knowledge.end(),
                       [&](const auto& part) { return known(*part, actor, prior, prior_lane); });
  }
  const unsigned lane = Records::lane(actor.id);
  const bool same_warp =
      prior.operation == nullptr && prior.agent == now.agent && prior.cluster == now.cluster;
  if (same_warp) {
    if (prior_lane == lane) return true;  // program order
    // Lanes of one instruction that write the same bytes: one of them wins, as the ISA says.
    if (prior.instruction == now.instruction && prior.time == now.time) return true;
  }
  return known(synchronisation_.order().of(now.agent, lane), actor, prior, prior_lane);
}

bool Races::fenced(const Actor& actor, const Record& prior, unsigned prior_lane) const {
  const Record& now = *actor.record;
  if (now.proxy == Proxy::tensormap && prior.kind != AccessKind::read) {
    const std::uint64_t written = prior.cluster == now.cluster ? prior.sequence : 0;
    return synchronisation_.maps_acquired(now.cta) > written;
  }
  if (now.proxy != Proxy::async || prior.proxy != Proxy::generic) return true;
  // A generic read before an asynchronous write needs no fence in practice: the read has returned.
  if (prior.kind == AccessKind::read || prior.cluster != now.cluster) return true;
  const FencedSpace space = actor.shared ? FencedSpace::shared : FencedSpace::global;
  const auto covered = [&](const auto& part) {
    const VectorClock& clock = part->fenced_in(space);
    if (prior.operation == nullptr) return clock.covers(prior.agent, prior.time, prior_lane);
    return Synchronisation::knows_completion(clock, *prior.operation, false, actor.memory_cta);
  };
  return std::all_of(now.operation->knowledge.begin(), now.operation->knowledge.end(), covered);
}

void Races::check_pair(const Actor& actor, const Memory& memory, RecordId prior_id,
                       std::uint64_t address) {
  const Record& prior = (*memory.records)[prior_id];
  const Record& now = *actor.record;
  const unsigned prior_lane = Records::lane(prior_id);
  const unsigned lane = Records::lane(actor.id);
  if (prior.strong && now.strong) return;
  // Threads that redundantly store one value cannot be told from one that stores it.
  if (actor.silent && prior.operation == nullptr && prior.kind == AccessKind::write) return;
  const bool in_order = ordered(actor, prior, prior_lane);
  if (in_order && (now.operation == nullptr || fenced(actor, prior, prior_lane))) return;

  const std::string place = describe_place(view_, actor.shared, actor.memory_cta, address);
  if (in_order && now.proxy == Proxy::tensormap) {
    sink_.add(ReportKind::missing_fence, now.instruction,
              describe(now, lane) + " takes its tensor map from " + place + " after a " +
                  describe(prior, prior_lane) +
                  ": no fence.proxy.tensormap::generic.acquire in the CTA between them",
              prior.instruction);
    return;
  }
  if (in_order) {
    sink_.add(ReportKind::missing_fence, now.instruction,
              describe(now, lane) + " to " + place +
                  " goes through the asynchronous proxy and follows a " +
                  describe(prior, prior_lane) +
                  " through the generic proxy: no fence.proxy.async on the "
                  "path between them (after the write, or after the wait of the issuing thread)",
              prior.instruction);
    return;
  }
  // Touched while an operation issued earlier owns the memory, or before it was known to be free?
  const Operation* now_operation = now.operation.get();
  const Operation* prior_operation = prior.operation.get();
  const std::uint64_t prior_began =
      prior_operation != nullptr ? prior_operation->sequence : prior.sequence;
  const bool now_first = now_operation != nullptr && prior_began > now_operation->sequence;
  const bool prior_owns = prior_operation != nullptr && now.kind != AccessKind::read && !now_first;
  const bool reuse = prior_owns || (now_first && prior.kind != AccessKind::read);
  const Record& first = now_first ? now : prior;
  const Record& second = now_first ? prior : now;
  const unsigned first_lane = now_first ? lane : prior_lane;
  const unsigned second_lane = now_first ? prior_lane : lane;
  sink_.add(reuse ? ReportKind::in_flight_reuse : ReportKind::data_race, now.instruction,
            describe(now, lane) + " to " + place + " is not ordered with a " +
                describe(prior, prior_lane) + ": missing " +
                missing_order(first, first_lane, second, second_lane),
            prior.instruction);
}

}  // namespace ptxemu::check
