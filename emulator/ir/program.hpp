// A decoded kernel: one instruction stream with everything it refers to.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "ir/instruction.hpp"
#include "ptx/ast.hpp"
#include "ptxemu/device.hpp"
#include "tensor/mma.hpp"
#include "tensor/wgmma.hpp"

namespace ptxemu::ir {

/// Bytes with the alignment that vector code likes.
template <typename T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{128};
  AlignedAllocator() = default;
  template <typename U>
  explicit AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kAlignment); }
  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};
using AlignedBytes = std::vector<std::byte, AlignedAllocator<std::byte>>;

/// A piece of a thread's stack frame.
struct FrameSlot {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

/// Layout of one function inside the kernel.
struct FunctionLayout {
  std::string name;
  std::uint32_t entry = 0;           ///< index of its first instruction
  std::uint32_t register_begin = 0;  ///< its part of the register bank
  std::uint32_t register_bytes = 0;
  std::uint32_t frame_bytes = 0;  ///< local memory of one activation, per thread
  std::vector<FrameSlot> parameters, returns;
  bool recursive = false;         ///< may be active twice: calls save its registers in local memory
  std::vector<Operand> saved;     ///< its registers, when recursive
  std::uint32_t saved_bytes = 0;  ///< of them, per thread
};

enum class Builtin : std::uint8_t { none, vprintf, assertfail };

struct CallSite {
  std::uint32_t target = 0;  ///< function, unless `builtin` or indirect
  Builtin builtin = Builtin::none;
  bool indirect = false;                      ///< the address is the instruction's operand a
  std::vector<FrameSlot> arguments, results;  ///< in the caller's frame
};

struct MmaDetail {
  tensor::MmaShape shape;
  std::span<const Operand> d;  ///< A, B, C are the instruction's list2, list3, list
};

struct WgmmaDetail {
  tensor::WgmmaShape shape;
  tensor::Major a_major = tensor::Major::k, b_major = tensor::Major::k;
  bool negate_a = false, negate_b = false;
};

struct SharedSymbol {
  std::string name;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};

struct Kernel {
  std::shared_ptr<const ptx::Module> module;
  KernelInfo info;
  std::vector<Instruction> code;
  AlignedBytes constants;                 ///< Bank::constants
  std::uint32_t register_bytes = 0;       ///< of the whole bank of a warp
  std::vector<FunctionLayout> functions;  ///< [0] is the kernel itself
  std::vector<CallSite> calls;
  std::vector<std::vector<std::uint32_t>> branch_tables;
  std::vector<MmaDetail> mma;
  std::vector<WgmmaDetail> wgmma;
  std::vector<SharedSymbol> shared_symbols;
  std::uint32_t shared_base = 0;
  std::uint32_t static_shared_end = 0;  ///< where dynamic shared memory begins
  std::uint32_t dynamic_alignment = 16;
  std::deque<std::vector<Operand>> operands;  ///< storage of the instructions' lists
  std::deque<std::vector<Address>> address_storage;
};

SourcePosition position_of(const Kernel& kernel, const Instruction& instruction);
/// The same for a place of the parsed text.
SourcePosition position_of(const ptx::Module& module, std::uint32_t line, std::uint32_t location);

}  // namespace ptxemu::ir
