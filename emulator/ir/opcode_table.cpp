// The decode table: groups of opcodes, each next to its handlers in exec/, gathered here.
#include "ir/opcode_table.hpp"

#include <array>
#include <set>
#include <unordered_map>

#include "exec/opcodes.hpp"
#include "ptxemu/device.hpp"

namespace ptxemu::ir {
namespace {

const std::unordered_map<std::string_view, OpcodeEntry>& table() {
  static const std::unordered_map<std::string_view, OpcodeEntry> kTable = [] {
    std::unordered_map<std::string_view, OpcodeEntry> result;
    for (const OpcodeGroup& group : opcode_groups()) {
      for (const OpcodeRow& row : group.rows)
        result.emplace(row.name, OpcodeEntry{&row, ModifierSpec(row.modifiers)});
    }
    return result;
  }();
  return kTable;
}

}  // namespace

std::span<const OpcodeGroup> opcode_groups() {
  static const std::vector<OpcodeGroup> kGroups{
      {"Integer arithmetic", exec::integer_opcodes()},
      {"Extended integer arithmetic", exec::extended_integer_opcodes()},
      {"Logic and shifts", exec::logic_opcodes()},
      {"Floating point", exec::float_opcodes()},
      {"Comparison and selection", exec::compare_opcodes()},
      {"Data movement and conversion", exec::move_opcodes()},
      {"Conversion", exec::convert_opcodes()},
      {"Loads and stores", exec::memory_opcodes()},
      {"Atomics", exec::atomic_opcodes()},
      {"Control flow", exec::control_opcodes()},
      {"Warp exchange", exec::warp_opcodes()},
      {"Barriers and fences", exec::barrier_opcodes()},
      {"mbarrier", exec::mbarrier_opcodes()},
      {"Asynchronous copies", exec::async_opcodes()},
      {"Bulk and tensor copies", exec::bulk_opcodes()},
      {"Matrix instructions", exec::matrix_opcodes()},
      {"Other", exec::misc_opcodes()},
  };
  return kGroups;
}

const OpcodeEntry* find_opcode(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : &found->second;
}

std::string supported_opcodes(std::string_view first_word) {
  std::set<std::string_view> related;
  std::set<std::string_view> all;
  for (const auto& [name, entry] : table()) {
    const std::string_view first = name.substr(0, name.find('.'));
    all.insert(first);
    if (first == first_word) related.insert(name);
  }
  std::string text;
  for (const std::string_view name : related.empty() ? all : related) {
    if (!text.empty()) text += ' ';
    text += name;
  }
  return text;
}

}  // namespace ptxemu::ir

namespace ptxemu {

std::vector<CoverageRow> instruction_coverage() {
  std::vector<CoverageRow> rows;
  for (const ir::OpcodeGroup& group : ir::opcode_groups()) {
    for (const ir::OpcodeRow& row : group.rows) {
      rows.push_back({std::string(row.name), ir::ModifierSpec(row.modifiers).to_string(),
                      std::string(group.title), std::string(row.note)});
    }
  }
  return rows;
}

}  // namespace ptxemu
