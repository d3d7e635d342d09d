// Integer arithmetic.
#include "exec/integer.hpp"

#include "exec/integer_operations.hpp"
#include "exec/lanes.hpp"
#include "exec/opcodes.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;

/// Two 16-bit halves, each by F.
template <template <typename> class F, typename T>
struct Pair {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const {
    const auto low = static_cast<std::uint16_t>(F<T>{}(static_cast<T>(a), static_cast<T>(b)));
    const auto high =
        static_cast<std::uint16_t>(F<T>{}(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
    return low | std::uint32_t{high} << 16;
  }
};

template <typename T, template <typename> class F>
constexpr ir::Handler kBinary = binary<Cost::cheap, T, T, T, F<T>>;
template <typename T, template <typename> class F>
constexpr ir::Handler kBinaryCostly = binary<Cost::costly, T, T, T, F<T>>;

/// The handler of F for an integer type.
template <template <typename> class F>
ir::Handler binary_for(Type type) {
  switch (type) {
    case Type::u16:
      return kBinary<std::uint16_t, F>;
    case Type::s16:
      return kBinary<std::int16_t, F>;
    case Type::u32:
      return kBinary<std::uint32_t, F>;
    case Type::s32:
      return kBinary<std::int32_t, F>;
    case Type::u64:
      return kBinary<std::uint64_t, F>;
    case Type::s64:
      return kBinary<std::int64_t, F>;
    default:
      return nullptr;
  }
}
template <template <typename> class F>
ir::Handler ternary_for(Type type) {
  switch (type) {
    case Type::u16:
      return ternary<Cost::cheap, std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t,
                     F<std::uint16_t>>;
    case Type::s16:
      return ternary<Cost::cheap, std::int16_t, std::int16_t, std::int16_t, std::int16_t,
                     F<std::int16_t>>;
    case Type::u32:
      return ternary<Cost::cheap, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                     F<std::uint32_t>>;
    case Type::s32:
      return ternary<Cost::cheap, std::int32_t, std::int32_t, std::int32_t, std::int32_t,
                     F<std::int32_t>>;
    case Type::u64:
      return ternary<Cost::cheap, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                     F<std::uint64_t>>;
    case Type::s64:
      return ternary<Cost::cheap, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                     F<std::int64_t>>;
    default:
      return nullptr;
  }
}

Type widened(Decode& d, Type type) {
  switch (type) {
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::u32:
      return Type::u64;
    case Type::s32:
      return Type::s64;
    default:
      d.unsupported(".wide needs a 16- or 32-bit type");
  }
}

template <template <typename> class F, template <typename> class Saturating>
void bind_add_sub(Decode& d) {
  const Type type = d.type();
  d.plain_operands(type, {type, type});
  if (d.has("sat")) {
    if (type == Type::s32) d.out.handler = kBinary<std::int32_t, Saturating>;
    return;
  }
  if (type == Type::u16x2 || type == Type::s16x2) {
    d.out.handler =
        binary<Cost::cheap, std::uint32_t, std::uint32_t, std::uint32_t, Pair<F, std::uint16_t>>;
    return;
  }
  d.out.handler = binary_for<F>(type);
}

void bind_mul(Decode& d) {
  const Type type = d.type();
  if (d.has("wide")) {
    const Type result = widened(d, type);
    d.require_operands(3, 3);
    d.out.type = result;
    d.out.source_type = type;
    d.out.d = d.destination(0, result);
    d.out.a = d.source(1, type);
    d.out.b = d.source(2, type);
    switch (type) {
      case Type::u16:
        d.out.handler = binary<Cost::cheap, std::uint32_t, std::uint16_t, std::uint16_t,
                               MulWide<std::uint16_t>>;
        break;
      case Type::s16:
        d.out.handler =
            binary<Cost::cheap, std::int32_t, std::int16_t, std::int16_t, MulWide<std::int16_t>>;
        break;
      case Type::u32:
        d.out.handler = binary<Cost::cheap, std::uint64_t, std::uint32_t, std::uint32_t,
                               MulWide<std::uint32_t>>;
        break;
      default:
        d.out.handler =
            binary<Cost::cheap, std::int64_t, std::int32_t, std::int32_t, MulWide<std::int32_t>>;
        break;
    }
    return;
  }
  d.plain_operands(type, {type, type});
  d.out.handler = d.has("hi") ? binary_for<MulHigh>(type) : binary_for<MulLow>(type);
}

void bind_mad(Decode& d) {
  const Type type = d.type();
  if (d.has("wide")) {
    const Type result = widened(d, type);
    d.plain_operands(type, result, {type, type, result});
    switch (type) {
      case Type::u16:
        d.out.handler = ternary<Cost::cheap, std::uint32_t, std::uint16_t, std::uint16_t,
                                std::uint32_t, MadWide<std::uint16_t>>;
        break;
      case Type::s16:
        d.out.handler = ternary<Cost::cheap, std::int32_t, std::int16_t, std::int16_t, std::int32_t,
                                MadWide<std::int16_t>>;
        break;
      case Type::u32:
        d.out.handler = ternary<Cost::cheap, std::uint64_t, std::uint32_t, std::uint32_t,
                                std::uint64_t, MadWide<std::uint32_t>>;
        break;
      default:
        d.out.handler = ternary<Cost::cheap, std::int64_t, std::int32_t, std::int32_t, std::int64_t,
                                MadWide<std::int32_t>>;
        break;
    }
    return;
  }
  d.plain_operands(type, {type, type, type});
  if (d.has("sat")) {
    if (d.has("hi") && type == Type::s32)
      d.out.handler = ternary<Cost::cheap, std::int32_t, std::int32_t, std::int32_t, std::int32_t,
                              MadHighSat<std::int32_t>>;
    return;
  }
  d.out.handler = d.has("hi") ? ternary_for<MadHigh>(type) : ternary_for<MadLow>(type);
}

template <template <typename> class F>
ir::Handler costly_for(Type type) {
  switch (type) {
    case Type::u16:
      return kBinaryCostly<std::uint16_t, F>;
    case Type::s16:
      return kBinaryCostly<std::int16_t, F>;
    case Type::u32:
      return kBinaryCostly<std::uint32_t, F>;
    case Type::s32:
      return kBinaryCostly<std::int32_t, F>;
    case Type::u64:
      return kBinaryCostly<std::uint64_t, F>;
    case Type::s64:
      return kBinaryCostly<std::int64_t, F>;
    default:
      return nullptr;
  }
}
template <template <typename> class F>
void bind_costly(Decode& d) {
  d.plain_operands(d.type(), {d.type(), d.type()});
  d.out.handler = costly_for<F>(d.type());
}

template <template <typename> class F>
void bind_unary(Decode& d) {
  const Type type = d.type();
  d.plain_operands(type, {type});
  switch (type) {
    case Type::s16:
      d.out.handler = unary<Cost::cheap, std::int16_t, std::int16_t, F<std::int16_t>>;
      break;
    case Type::s32:
      d.out.handler = unary<Cost::cheap, std::int32_t, std::int32_t, F<std::int32_t>>;
      break;
    case Type::s64:
      d.out.handler = unary<Cost::cheap, std::int64_t, std::int64_t, F<std::int64_t>>;
      break;
    default:
      break;
  }
}

void bind_sad(Decode& d) {
  d.plain_operands(d.type(), {d.type(), d.type(), d.type()});
  d.out.handler = ternary_for<Sad>(d.type());
}

constexpr ir::OpcodeRow kRows[] = {
    {"sad", "@int", bind_sad},
    {"rem", "@int", bind_costly<Rem>},
};

}  // namespace

// Opcodes that also exist for floating point are bound there and come here for integer types.
void bind_integer_add(Decode& d) {
  bind_add_sub<Add, AddSat>(d);
}
void bind_integer_sub(Decode& d) {
  bind_add_sub<Sub, SubSat>(d);
}
void bind_integer_mul(Decode& d) {
  bind_mul(d);
}
void bind_integer_mad(Decode& d) {
  bind_mad(d);
}
void bind_integer_div(Decode& d) {
  bind_costly<Div>(d);
}
void bind_integer_abs(Decode& d) {
  bind_unary<Abs>(d);
}
void bind_integer_neg(Decode& d) {
  bind_unary<Neg>(d);
}

void bind_integer_min_max(Decode& d, bool maximum) {
  const Type type = d.type();
  d.plain_operands(type, {type, type});
  const bool relu = d.has("relu");
  using W = std::uint32_t;
  if (type == Type::u16x2) {
    d.out.handler = maximum ? binary<Cost::cheap, W, W, W, Pair<Max, std::uint16_t>>
                            : binary<Cost::cheap, W, W, W, Pair<Min, std::uint16_t>>;
  } else if (type == Type::s16x2) {
    if (relu) {
      d.out.handler = maximum ? binary<Cost::cheap, W, W, W, Pair<MaxRelu, std::int16_t>>
                              : binary<Cost::cheap, W, W, W, Pair<MinRelu, std::int16_t>>;
    } else {
      d.out.handler = maximum ? binary<Cost::cheap, W, W, W, Pair<Max, std::int16_t>>
                              : binary<Cost::cheap, W, W, W, Pair<Min, std::int16_t>>;
    }
  } else if (relu) {
    if (type == Type::s32)
      d.out.handler = maximum ? kBinary<std::int32_t, MaxRelu> : kBinary<std::int32_t, MinRelu>;
  } else {
    d.out.handler = maximum ? binary_for<Max>(type) : binary_for<Min>(type);
  }
}

std::span<const ir::OpcodeRow> integer_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec