// A loaded module: parsed text, its variables in device memory, decoded kernels.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "ir/program.hpp"
#include "mem/global_memory.hpp"
#include "ptxemu/device.hpp"

namespace ptxemu {

struct Module::Impl {
  /// Parses, allocates variables and decodes every kernel.
  Impl(std::string_view ptx, std::string_view name, std::shared_ptr<mem::GlobalMemory> memory,
       std::uint32_t shared_base);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  const ir::Kernel& kernel(std::string_view name) const;

  std::shared_ptr<mem::GlobalMemory> memory;
  std::shared_ptr<const ptx::Module> parsed;
  std::unordered_map<const ptx::Variable*, std::uint64_t> addresses;
  std::vector<std::shared_ptr<ir::Kernel>> kernels;

 private:
  void place_variables();
  std::uint64_t address_of(const ptx::Variable& variable) const;
};

}  // namespace ptxemu
