// atom and red on global and shared memory.
#include <mutex>

#include "exec/cluster.hpp"
#include "exec/float_values.hpp"
#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"
#include "numeric/arithmetic.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;
using numeric::Format;

enum class AtomicOp : std::uint8_t { bit_and, bit_or, bit_xor, add, inc, dec, min, max, exch, cas };

U32 add_halves(U32 a, U32 b, Format format) {
  return numeric::half_add(format, U16(a), U16(b)) |
         U32{numeric::half_add(format, U16(a >> 16), U16(b >> 16))} << 16;
}

template <bool kMaximum>
U16 half_min_max(U16 a, U16 b, Format format) {
  const auto widen = [&](U16 v) {
    return format == Format::f16 ? numeric::f16_to_f32(v) : numeric::bf16_to_f32(v);
  };
  const float x = widen(a);
  const float y = widen(b);
  if (x != x) return y != y ? 0x7fff : b;
  if (y != y) return a;
  if (x == y) return ((a & 0x8000) != 0) == kMaximum ? b : a;
  return (x > y) == kMaximum ? a : b;
}

/// The new value of an element of up to 64 bits.
/// `ftz`: binary32 sums on global memory flush subnormals, those on shared memory do not.
U64 combine(AtomicOp op, Type type, U64 old, U64 value, U64 other, bool ftz) {
  switch (op) {
    case AtomicOp::bit_and:
      return old & value;
    case AtomicOp::bit_or:
      return old | value;
    case AtomicOp::bit_xor:
      return old ^ value;
    case AtomicOp::exch:
      return value;
    case AtomicOp::cas:
      return old == value ? other : old;
    case AtomicOp::inc:
      return old >= value ? 0 : old + 1;
    case AtomicOp::dec:
      return old == 0 || old > value ? value : old - 1;
    case AtomicOp::add:
      switch (type) {
        case Type::f32: {
          const auto part = [&](U64 bits) {
            const float x = std::bit_cast<float>(static_cast<U32>(bits));
            return ftz ? flush<true>(x) : x;
          };
          const float sum = part(old) + part(value);
          return std::bit_cast<U32>(canonical(ftz ? flush<true>(sum) : sum));
        }
        case Type::f64:
          return std::bit_cast<U64>(
              canonical(std::bit_cast<double>(old) + std::bit_cast<double>(value)));
        case Type::f16:
          return numeric::half_add(Format::f16, U16(old), U16(value));
        case Type::bf16:
          return numeric::half_add(Format::bf16, U16(old), U16(value));
        case Type::f16x2:
          return add_halves(U32(old), U32(value), Format::f16);
        case Type::bf16x2:
          return add_halves(U32(old), U32(value), Format::bf16);
        default:
          return old + value;
      }
    case AtomicOp::min:
    case AtomicOp::max: {
      const bool maximum = op == AtomicOp::max;
      bool larger = false;
      switch (type) {
        case Type::f16:
        case Type::bf16: {
          const Format format = type == Type::f16 ? Format::f16 : Format::bf16;
          return maximum ? half_min_max<true>(U16(old), U16(value), format)
                         : half_min_max<false>(U16(old), U16(value), format);
        }
        case Type::f16x2:
        case Type::bf16x2: {
          const Format format = type == Type::f16x2 ? Format::f16 : Format::bf16;
          const auto part = [&](U16 a, U16 b) {
            return maximum ? half_min_max<true>(a, b, format) : half_min_max<false>(a, b, format);
          };
          return part(U16(old), U16(value)) | U64{part(U16(old >> 16), U16(value >> 16))} << 16;
        }
        case Type::s32:
          larger = static_cast<std::int32_t>(old) > static_cast<std::int32_t>(value);
          break;
        case Type::s64:
          larger = static_cast<std::int64_t>(old) > static_cast<std::int64_t>(value);
          break;
        default:
          larger = old > value;
          break;
      }
      return larger == maximum ? old : value;
    }
  }
  return old;
}

/// One atomic step on host memory, safe against other clusters on other host threads.
template <typename T>
T update(std::byte* place, AtomicOp op, Type type, T value, T other, bool ftz) {
  auto* target = reinterpret_cast<T*>(place);
  T old = __atomic_load_n(target, __ATOMIC_ACQUIRE);
  while (true) {
    const T next = static_cast<T>(combine(op, type, old, value, other, ftz));
    if (__atomic_compare_exchange_n(target, &old, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
      return old;
  }
}

/// `list` holds the source elements; `d`/`list2` the destinations (none for red).
template <typename T>
Action atomic(Context& c, const Instruction& in, LaneMask lanes) {
  Context::Addresses addresses;
  Context::Pointers pointers;
  c.addresses(in.addresses[0], lanes, addresses);
  const U32 bytes = static_cast<U32>(sizeof(T)) * in.elements;
  c.resolve(in, {in.space, AccessKind::atomic, bytes, bytes, Proxy::generic, !in.list2.empty()},
            lanes, addresses, pointers);
  c.cluster->note_progress();
  const auto op = static_cast<AtomicOp>(in.flags);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(rest));
    const bool global = in.space == ir::Space::global ||
                        (in.space == ir::Space::generic && (addresses[l] & mem::kWindowMask) == 0);
    for (std::size_t e = 0; e < in.elements; ++e) {
      const T value = from_slot<T>(c.row<const SlotOf<T>>(in.list[e])[l]);
      const T other = in.c.present() ? from_slot<T>(c.row<const SlotOf<T>>(in.c)[l]) : T{0};
      const T old = update<T>(pointers[l] + e * sizeof(T), op, in.type, value, other, global);
      if (!in.list2.empty()) c.row<SlotOf<T>>(in.list2[e])[l] = to_slot<T>(old);
    }
  }
  return Action::next;
}

/// 128-bit exchange and compare-exchange.
Action atomic128(Context& c, const Instruction& in, LaneMask lanes) {
  Context::Addresses addresses;
  Context::Pointers pointers;
  c.addresses(in.addresses[0], lanes, addresses);
  c.resolve(in, {in.space, AccessKind::atomic, 16, 16, Proxy::generic, true}, lanes, addresses,
            pointers);
  c.cluster->note_progress();
  static std::mutex mutex;  // rare enough
  const std::lock_guard lock(mutex);
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(rest));
    Bits128 old;
    std::memcpy(&old, pointers[l], 16);
    const Bits128 value = c.row<const Bits128>(in.list[0])[l];
    if (static_cast<AtomicOp>(in.flags) == AtomicOp::exch) {
      std::memcpy(pointers[l], &value, 16);
    } else if (old.low == value.low && old.high == value.high) {
      std::memcpy(pointers[l], &c.row<const Bits128>(in.c)[l], 16);
    }
    c.row<Bits128>(in.list2[0])[l] = old;
  }
  return Action::next;
}

AtomicOp operation_of(Decode& d) {
  static constexpr std::string_view kNames[] = {"and", "or",  "xor", "add",  "inc",
                                                "dec", "min", "max", "exch", "cas"};
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (d.has(kNames[i])) return static_cast<AtomicOp>(i);
  }
  d.fail("no atomic operation");
}

bool exists(AtomicOp op, Type type) {
  const int bits = ir::bit_size(type);
  const bool plain = type == Type::b32 || type == Type::b64;
  switch (op) {
    case AtomicOp::bit_and:
    case AtomicOp::bit_or:
    case AtomicOp::bit_xor:
      return plain;
    case AtomicOp::exch:
      return plain || type == Type::b128;
    case AtomicOp::cas:
      return plain || type == Type::b16 || type == Type::b128;
    case AtomicOp::inc:
    case AtomicOp::dec:
      return type == Type::u32;
    case AtomicOp::add:
      return !plain && type != Type::b16 && bits <= 64;
    case AtomicOp::min:
    case AtomicOp::max:
      return !plain && type != Type::b16 && type != Type::f32 && type != Type::f64 && bits <= 64;
  }
  return false;
}

template <bool kReturns>
void bind_atomic(Decode& d) {
  const Type type = d.type();
  const AtomicOp op = operation_of(d);
  const std::size_t count = d.has("v2") ? 2 : d.has("v4") ? 4 : d.has("v8") ? 8 : 1;
  d.out.category = kReturns ? ir::Category::atomic : ir::Category::reduction;
  d.out.type = type;
  d.out.space = d.space();
  d.out.elements = static_cast<std::uint8_t>(count);
  d.out.flags = static_cast<U32>(op);
  d.memory_order(ir::Semantics::relaxed);
  if (d.out.scope == ir::Scope::none) d.out.scope = ir::Scope::gpu;
  if (!exists(op, type))
    d.unsupported("atomic operation and type ." + std::string(ir::to_string(type)) +
                  " do not go together");
  if (!kReturns && op >= AtomicOp::exch) d.unsupported("red has no .exch and no .cas");
  std::size_t next = 0;
  if (kReturns) d.out.list2 = d.destinations(d.operand(next++), type, count);
  d.address(next++);
  d.out.list = d.sources(d.operand(next++), type, count);
  if (op == AtomicOp::cas) d.out.c = d.source(next++, type);
  if (next < d.operand_count()) d.source(next, Type::b64);  // cache policy
  switch (ir::bit_size(type)) {
    case 16:
      d.out.handler = atomic<U16>;
      break;
    case 32:
      d.out.handler = atomic<U32>;
      break;
    case 64:
      d.out.handler = atomic<U64>;
      break;
    default:
      d.out.handler = kReturns ? atomic128 : nullptr;
      break;
  }
}

constexpr std::string_view kAtomic =
    "[relaxed|acquire|release|acq_rel] [@scope] [global|@shared] "
    "and|or|xor|add|inc|dec|min|max|exch|cas "
    "[noftz] [L2::cache_hint] [v2|v4|v8] "
    "b16|b32|b64|b128|u32|u64|s32|s64|f16|f16x2|bf16|bf16x2|f32|f64";

constexpr ir::OpcodeRow kRows[] = {
    {"atom", kAtomic, bind_atomic<true>},
    {"red", kAtomic, bind_atomic<false>},
};

}  // namespace

std::span<const ir::OpcodeRow> atomic_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
