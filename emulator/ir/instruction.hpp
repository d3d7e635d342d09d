// Decoded instructions: what the parser's text becomes once, and what executes many times.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ptxemu::exec {
class Context;
}

namespace ptxemu::ir {

/// Bit l stands for lane l of the warp.
using LaneMask = std::uint32_t;
inline constexpr int kWarpSize = 32;
inline constexpr LaneMask kFullMask = 0xffffffffu;

/// Where a value lives. Registers are stored lane by lane: a 32-bit register is `uint32_t[32]`; 8-
/// and 16-bit registers use the same slot, 64- and 128-bit ones are wider, a predicate is one lane
/// mask.
enum class Bank : std::uint8_t {
  registers,  ///< the warp's registers
  constants,  ///< immediates, broadcast to all lanes, shared by all warps
  specials,   ///< %tid, %ctaid, … of the warp
  none,       ///< the sink `_` or no operand
};

/// Width class of a register or of an immediate.
enum class Width : std::uint8_t { predicate, bits32, bits64, bits128 };

struct Operand {
  std::uint32_t offset = 0;  ///< bytes from the start of the bank
  Bank bank = Bank::none;
  Width width = Width::bits32;
  bool negated = false;    ///< `!p` of a predicate
  std::uint8_t bits = 32;  ///< declared size of the register: 1, 8, 16, 32, 64, 128
  [[nodiscard]] bool present() const noexcept { return bank != Bank::none; }
  [[nodiscard]] bool is_register() const noexcept { return bank == Bank::registers; }
};

enum class Type : std::uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  f32,
  f32x2,
  f64,
  tf32,
  e4m3,
  e5m2,
  e4m3x2,
  e5m2x2,
  e2m1,
  e2m1x2,
  e2m3x2,
  e3m2x2,
  ue8m0x2,
  u4,
  s4,
  b1,
  u16x2,
  s16x2,
};
/// Bits of one value; packed types count as a whole (f16x2: 32).
int bit_size(Type type);
std::string_view to_string(Type type);

enum class Space : std::uint8_t { generic, global, shared, shared_cluster, local, param, constant };
enum class Semantics : std::uint8_t {
  weak,
  relaxed,
  acquire,
  release,
  acq_rel,
  seq_cst,
  is_volatile
};
enum class Scope : std::uint8_t { none, cta, cluster, gpu, sys };

/// Coarse class of an instruction, for checkers and statistics.
enum class Category : std::uint8_t {
  arithmetic,  ///< registers in, registers out, no other effect
  control,     ///< branches, calls, return, exit, trap
  load,
  store,
  atomic,
  reduction,
  warp_exchange,  ///< shfl, vote, match, redux, elect, activemask, bar.warp.sync
  cta_barrier,
  cluster_barrier,
  mbarrier,
  fence,
  async_copy,       ///< cp.async and bulk copies, tensor-map copies, st.async, red.async
  async_group,      ///< commit and wait of groups, cp.async.mbarrier.arrive
  matrix_load,      ///< ldmatrix, stmatrix, movmatrix
  matrix_multiply,  ///< mma.sync
  wgmma,            ///< wgmma.mma_async
  wgmma_sync,       ///< wgmma.fence, commit_group, wait_group
  other,            ///< setmaxnreg, griddepcontrol, prefetch, nanosleep, tensormap.*, …
};

/// What the execution loop does after a handler.
enum class Action : std::uint8_t {
  next,    ///< go on
  branch,  ///< the split's position changed, or splits were made
  block,   ///< the split waits; it re-executes or continues as the handler arranged
  yield,   ///< go on, but let others run first (failed poll, nanosleep)
  exit,    ///< the executing lanes are gone
};

/// What an address operand's offset is relative to, besides its base register.
enum class AddressBase : std::uint8_t {
  absolute,
  frame,       ///< the thread's current stack frame (local variables, call parameters)
  parameters,  ///< the kernel's parameter block
  own_shared,  ///< shared memory of the executing CTA (adds its rank tag)
};
/// `[base + offset]`; the base is a 32- or 64-bit operand or absent.
struct Address {
  Operand base;
  std::int64_t offset = 0;
  AddressBase relative_to = AddressBase::absolute;
};

struct Instruction;
using Handler = Action (*)(exec::Context&, const Instruction&, LaneMask);

/// One instruction. Operand lists point into the function's operand pool.
struct Instruction {
  Handler handler = nullptr;
  Operand guard;  ///< @p or @!p; bank none without
  Operand d;      ///< first destination
  Operand d2;     ///< second destination (`d|p`)
  Operand a, b, c;
  std::int64_t immediate = 0;  ///< branch target, group count, … as the opcode has it
  std::uint32_t detail = 0;    ///< index into the function's side tables, as the opcode has it
  Type type = Type::none;      ///< of the operation (destination)
  Type source_type = Type::none;
  Category category = Category::arithmetic;
  Space space = Space::generic;
  Semantics semantics = Semantics::weak;
  Scope scope = Scope::none;
  std::uint8_t elements = 1;           ///< vector length of loads and stores
  std::uint32_t flags = 0;             ///< opcode-specific bits
  std::uint32_t line = 0;              ///< line in the PTX text
  std::uint32_t location = 0;          ///< index into the module's `.loc` table, 0 = none
  std::span<const Address> addresses;  ///< in the order of the operands
  std::span<const Operand> list;  ///< vector operand: load destinations, store sources, wgmma D, …
  std::span<const Operand> list2;  ///< second vector operand: mma A, tensor coordinates, …
  std::span<const Operand> list3;
  std::span<const Operand> reads;   ///< every register the instruction reads, guard included
  std::span<const Operand> writes;  ///< every register it writes
  std::string_view opcode;          ///< base opcode, e.g. "mbarrier.try_wait"
  std::string_view text;            ///< the instruction as written
};

}  // namespace ptxemu::ir
