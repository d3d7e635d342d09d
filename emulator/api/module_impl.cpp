// Loading of modules.
#include "api/module_impl.hpp"

#include <cstring>

#include "ir/decode.hpp"
#include "ptx/parser.hpp"

namespace ptxemu {

Module::Impl::Impl(std::string_view ptx, std::string_view name,
                   std::shared_ptr<mem::GlobalMemory> memory_in, std::uint32_t shared_base)
    : memory(std::move(memory_in)), parsed(ptx::parse(ptx, name)) {
  try {
    place_variables();
    const ir::GlobalAddress global = [this](const ptx::Variable& v) { return address_of(v); };
    for (const ptx::Function& function : parsed->functions) {
      if (function.entry && function.defined)
        kernels.push_back(ir::decode_kernel(parsed, function, global, shared_base));
    }
  } catch (...) {
    for (const auto& [variable, address] : addresses) memory->free(address);
    throw;
  }
}

Module::Impl::~Impl() {
  for (const auto& [variable, address] : addresses) memory->free(address);
}

std::uint64_t Module::Impl::address_of(const ptx::Variable& variable) const {
  const auto found = addresses.find(&variable);
  if (found == addresses.end()) {
    const SourcePosition position = ir::position_of(*parsed, variable.line, 0);
    throw Error(ErrorKind::unsupported,
                to_string(position) + ": variable '" + variable.name +
                    "' is .extern and not defined in this text; linking is not supported",
                position);
  }
  return found->second;
}

void Module::Impl::place_variables() {
  std::unordered_map<std::string_view, const ptx::Variable*> by_name;
  for (const ptx::Variable* v : parsed->globals) {
    if (v->space == ptx::StateSpace::shared || v->is_extern) continue;
    // Uninitialised globals are zero, as in CUDA.
    const std::uint64_t address =
        memory->allocate(v->bytes, v->name, v->space == ptx::StateSpace::constant);
    addresses.emplace(v, address);
    by_name.emplace(v->name, v);
    auto* bytes = reinterpret_cast<std::byte*>(address);
    if (v->bytes != 0) std::memset(bytes, 0, v->bytes);
    if (!v->initialiser.bytes.empty())
      std::memcpy(bytes, v->initialiser.bytes.data(), v->initialiser.bytes.size());
  }
  for (const auto& [variable, address] : addresses) {
    for (const ptx::Initialiser::Relocation& r : variable->initialiser.relocations) {
      const auto target = by_name.find(r.symbol);
      std::uint64_t value = 0;  // functions in initialisers have no address here
      if (target != by_name.end())
        value = addresses.at(target->second) + static_cast<std::uint64_t>(r.addend);
      std::memcpy(reinterpret_cast<std::byte*>(address) + r.offset, &value, sizeof value);
    }
  }
}

const ir::Kernel& Module::Impl::kernel(std::string_view name) const {
  std::string names;
  for (const auto& kernel : kernels) {
    if (kernel->info.name == name) return *kernel;
    names += " " + kernel->info.name;
  }
  throw Error(ErrorKind::not_found, "there is no kernel '" + std::string(name) + "' in " +
                                        parsed->name +
                                        "; it has:" + (names.empty() ? " none" : names));
}

std::vector<std::string> Module::kernel_names() const {
  std::vector<std::string> names;
  for (const auto& kernel : impl_->kernels) names.push_back(kernel->info.name);
  return names;
}

const KernelInfo& Module::kernel(std::string_view name) const {
  return impl_->kernel(name).info;
}

Module::Global Module::global(std::string_view name) const {
  for (const auto& [variable, address] : impl_->addresses) {
    if (variable->name == name) return {address, variable->bytes};
  }
  throw Error(ErrorKind::not_found,
              "there is no .global or .const variable '" + std::string(name) + "'");
}

}  // namespace ptxemu
