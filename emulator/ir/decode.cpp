// Reading modifiers and operands of one statement.
#include "ir/decode.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ir/kernel_builder.hpp"
#include "ir/special_registers.hpp"
#include "numeric/convert.hpp"

namespace ptxemu::ir {
namespace {

using Kind = ptx::Operand::Kind;

std::string_view kind_name(Kind kind) {
  static constexpr std::string_view kNames[] = {"a register",
                                                "a special register",
                                                "an integer",
                                                "a floating-point constant",
                                                "a floating-point constant",
                                                "a variable",
                                                "a function",
                                                "a label",
                                                "'_'",
                                                "a vector",
                                                "an address",
                                                "a pair",
                                                "a list"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

bool Decode::has(std::string_view modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

std::string_view Decode::one_of(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    if (has(name)) return name;
  }
  return {};
}

std::vector<Type> Decode::types() const {
  std::vector<Type> result;
  for (const std::string_view modifier : modifiers) {
    if (const Type type = parse_type(modifier); type != Type::none) result.push_back(type);
  }
  return result;
}

Type Decode::type(std::size_t i) const {
  const std::vector<Type> all = types();
  if (i >= all.size()) fail("the instruction needs " + std::to_string(i + 1) + " type modifiers");
  return all[i];
}

Space Decode::space() const {
  for (const std::string_view m : modifiers) {
    if (m == "global") return Space::global;
    if (m == "shared" || m == "shared::cta") return Space::shared;
    if (m == "shared::cluster") return Space::shared_cluster;
    if (m == "local") return Space::local;
    if (m == "param" || m == "param::entry" || m == "param::func") return Space::param;
    if (m == "const") return Space::constant;
  }
  return Space::generic;
}

void Decode::memory_order(Semantics fallback) {
  out.semantics = fallback;
  if (has("weak")) out.semantics = Semantics::weak;
  if (has("relaxed")) out.semantics = Semantics::relaxed;
  if (has("acquire")) out.semantics = Semantics::acquire;
  if (has("release")) out.semantics = Semantics::release;
  if (has("acq_rel")) out.semantics = Semantics::acq_rel;
  if (has("sc")) out.semantics = Semantics::seq_cst;
  if (has("volatile")) out.semantics = Semantics::is_volatile;
  if (has("cta")) out.scope = Scope::cta;
  if (has("cluster")) out.scope = Scope::cluster;
  if (has("gpu")) out.scope = Scope::gpu;
  if (has("sys")) out.scope = Scope::sys;
}

const ptx::Operand& Decode::operand(std::size_t i) const {
  if (i >= statement_.operands.size()) fail("operand " + std::to_string(i + 1) + " is missing");
  return statement_.operands[i];
}

void Decode::require_operands(std::size_t least, std::size_t most) {
  const std::size_t n = operand_count();
  if (n >= least && n <= most) return;
  fail("takes " + std::to_string(least) +
       (most != least ? " to " + std::to_string(most) : std::string()) + " operands, not " +
       std::to_string(n));
}

void Decode::plain_operands(Type type, Type result, std::initializer_list<Type> sources) {
  require_operands(sources.size() + 1, sources.size() + 1);
  out.type = type;
  out.d = destination(0, result);
  Operand* const targets[] = {&out.a, &out.b, &out.c};
  std::size_t i = 0;
  for (const Type source_type : sources) {
    *targets[i] = source(i + 1, source_type);
    ++i;
  }
}

void Decode::fail(const std::string& message) const {
  builder_.fail(ErrorKind::parse, message, statement_.line, statement_.location, statement_.text);
}
void Decode::unsupported(const std::string& message) const {
  builder_.fail(ErrorKind::unsupported, message, statement_.line, statement_.location,
                statement_.text);
}

Operand Decode::register_operand(const ptx::Operand& operand) {
  Operand result = builder_.register_operand(operand.index);
  result.negated = operand.negated;
  if (operand.negated && result.width != Width::predicate) fail("'!' needs a predicate register");
  return result;
}

Operand Decode::destination(const ptx::Operand& operand, Type type) {
  if (operand.kind == Kind::sink) {
    Operand sink;
    sink.width = width_of(type);
    return sink;
  }
  if (operand.kind != Kind::reg)
    fail("the destination must be a register, not " + std::string(kind_name(operand.kind)));
  const Operand result = register_operand(operand);
  if (result.width != width_of(type) || operand.negated)
    fail("register '" + builder_.function().registers[operand.index].name + "' (" +
         std::to_string(result.bits) + " bits) does not hold a ." + std::string(to_string(type)));
  writes_.push_back(result);
  return result;
}

Operand Decode::wide_destination(const ptx::Operand& operand, Type type) {
  if (operand.kind == Kind::reg) {
    const Operand result = builder_.register_operand(operand.index);
    if (result.width != Width::predicate && result.width > width_of(type)) {
      writes_.push_back(result);
      return result;
    }
  }
  return destination(operand, type);
}

Operand Decode::wide_source(const ptx::Operand& operand, Type type) {
  if (operand.kind == Kind::reg) {
    const Operand result = builder_.register_operand(operand.index);
    if (result.width != Width::predicate && result.width > width_of(type)) {
      reads_.push_back(result);
      return result;
    }
  }
  return source(operand, type);
}

Operand Decode::source(const ptx::Operand& operand, Type type) {
  switch (operand.kind) {
    case Kind::reg: {
      const Operand result = register_operand(operand);
      if (result.width != width_of(type))
        fail("register '" + builder_.function().registers[operand.index].name + "' (" +
             std::to_string(result.bits) + " bits) does not hold a ." +
             std::string(to_string(type)));
      reads_.push_back(result);
      return result;
    }
    case Kind::special: {
      const Special special = parse_special(operand.name);
      if (special == Special::unknown)
        unsupported("special register '" + std::string(operand.name) + "' is not supported");
      if (special > Special::count)
        fail("'" + std::string(operand.name) + "' can only be read by mov");
      if (width_of(type) != Width::bits32)
        fail("special register '" + std::string(operand.name) + "' has 32 bits");
      Operand result;
      result.bank = Bank::specials;
      result.offset = static_cast<std::uint32_t>(special) * kSpecialRowBytes;
      return result;
    }
    case Kind::integer:
    case Kind::float32:
    case Kind::float64:
      return constant_operand(operand, type);
    case Kind::variable:
      if (operand.variable->space == ptx::StateSpace::global ||
          operand.variable->space == ptx::StateSpace::constant)
        return builder_.constant(width_of(type),
                                 builder_.global_address(*operand.variable) + operand.bits);
      fail("take the address of '" + operand.variable->name + "' with mov first");
    case Kind::sink: {
      Operand sink;
      sink.width = width_of(type);
      return sink;
    }
    default:
      fail("expected a register or a constant, not " + std::string(kind_name(operand.kind)) +
           (operand.kind == Kind::function ? " '" + std::string(operand.name) + "'" : ""));
  }
}

Operand Decode::constant_operand(const ptx::Operand& operand, Type type) {
  std::uint64_t bits = operand.bits;
  const int size = bit_size(type);
  if (operand.kind == Kind::integer) {
    if (type == Type::f32) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int64_t>(bits)));
    } else if (type == Type::f64) {
      bits = std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(bits)));
    } else if (size < 64 && size > 1) {
      bits &= (std::uint64_t{1} << size) - 1;
    }
    return builder_.constant(width_of(type), bits);
  }
  const bool single = operand.kind == Kind::float32;
  const double value =
      single ? std::bit_cast<float>(static_cast<std::uint32_t>(bits)) : std::bit_cast<double>(bits);
  switch (type) {
    case Type::f32:
    case Type::b32:
    case Type::u32:
    case Type::s32:
      if (!single) bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      break;
    case Type::f64:
    case Type::b64:
    case Type::u64:
    case Type::s64:
      if (single) bits = std::bit_cast<std::uint64_t>(value);
      break;
    case Type::f16:
      bits = numeric::encode(numeric::Format::f16, value);
      break;
    case Type::bf16:
      bits = numeric::encode(numeric::Format::bf16, value);
      break;
    default:
      fail("a floating-point constant does not fit type ." + std::string(to_string(type)));
  }
  return builder_.constant(width_of(type), bits);
}

void Decode::destination_and_predicate(std::size_t i, Type type) {
  const ptx::Operand& o = operand(i);
  if (o.kind == Kind::pair) {
    out.d = destination(o.items[0], type);
    out.d2 = destination(o.items[1], Type::pred);
  } else {
    out.d = destination(o, type);
  }
}

bool Decode::is_predicate(const ptx::Operand& o) const {
  return o.kind == Kind::reg && builder_.register_operand(o.index).width == Width::predicate;
}

bool Decode::is_constant(std::size_t i) const {
  return i < operand_count() && operand(i).kind == Kind::integer;
}

std::int64_t Decode::constant(const ptx::Operand& o, std::int64_t low, std::int64_t high) {
  if (o.kind != Kind::integer)
    fail("expected an integer constant, not " + std::string(kind_name(o.kind)));
  const auto value = static_cast<std::int64_t>(o.bits);
  if (value < low || value > high)
    fail("constant " + std::to_string(value) + " is outside " + std::to_string(low) + " … " +
         std::to_string(high));
  return value;
}

std::int64_t Decode::constant(std::size_t i, std::int64_t low, std::int64_t high) {
  return constant(operand(i), low, high);
}

bool Decode::is_address(std::size_t i) const {
  return i < operand_count() && operand(i).kind == Kind::address;
}

void Decode::address(const ptx::Operand& o) {
  if (o.kind != Kind::address)
    fail("expected an address [...], not " + std::string(kind_name(o.kind)));
  Address result;
  result.offset = static_cast<std::int64_t>(o.bits);
  const ptx::Operand& base = o.items[0];
  const auto displace = [&](std::uint64_t offset) {
    result.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(result.offset) + offset);
  };
  switch (base.kind) {
    case Kind::reg: {
      result.base = register_operand(base);
      if (result.base.width != Width::bits32 && result.base.width != Width::bits64)
        fail("an address register has 32 or 64 bits");
      reads_.push_back(result.base);
      break;
    }
    case Kind::integer:
      displace(base.bits);
      break;
    case Kind::variable: {
      const ptx::Variable& v = *base.variable;
      switch (v.space) {
        case ptx::StateSpace::global:
        case ptx::StateSpace::constant:
          displace(builder_.global_address(v));
          break;
        case ptx::StateSpace::shared:
          result.relative_to = AddressBase::own_shared;
          displace(builder_.shared_offset(v));
          break;
        default:
          if (builder_.is_kernel_parameter(v)) {
            result.relative_to = AddressBase::parameters;
            displace(builder_.parameter_offset(v));
          } else {
            result.relative_to = AddressBase::frame;
            displace(builder_.frame_slot(v, statement_.line).offset);
          }
      }
      break;
    }
    default:
      fail("an address starts with a register, a variable or a number, not " +
           std::string(kind_name(base.kind)) + " '" + std::string(base.name) + "'");
  }
  addresses_.push_back(result);
}

std::size_t Decode::vector_size(const ptx::Operand& vector) const {
  return vector.kind == Kind::vector ? vector.items.size() : 1;
}

std::span<const Operand> Decode::keep(std::vector<Operand> operands) {
  if (operands.empty()) return {};
  return builder_.kernel().operands.emplace_back(std::move(operands));
}

std::span<const Operand> Decode::destinations(const ptx::Operand& vector, Type type,
                                              std::size_t count) {
  if (vector_size(vector) != count)
    fail("the vector needs " + std::to_string(count) + " registers, not " +
         std::to_string(vector_size(vector)));
  std::vector<Operand> result;
  if (vector.kind != Kind::vector) {
    result.push_back(wide_destination(vector, type));
  } else {
    for (const ptx::Operand& item : vector.items) result.push_back(wide_destination(item, type));
  }
  return keep(std::move(result));
}

std::span<const Operand> Decode::sources(const ptx::Operand& vector, Type type, std::size_t count) {
  if (vector_size(vector) != count)
    fail("the vector needs " + std::to_string(count) + " elements, not " +
         std::to_string(vector_size(vector)));
  std::vector<Operand> result;
  if (vector.kind != Kind::vector) {
    result.push_back(wide_source(vector, type));
  } else {
    for (const ptx::Operand& item : vector.items) result.push_back(wide_source(item, type));
  }
  return keep(std::move(result));
}

std::uint32_t Decode::branch_target(const ptx::Operand& label) {
  if (label.kind != Kind::label)
    fail("branch target '" + std::string(label.name) + "' is not a label of this scope");
  return builder_.instruction_of(label.index);
}

bool Decode::is_kernel_parameter(const ptx::Variable& variable) const {
  return builder_.is_kernel_parameter(variable);
}

void Decode::finish() {
  if (!addresses_.empty()) out.addresses = builder_.addresses().emplace_back(std::move(addresses_));
  out.reads = keep(std::move(reads_));
  out.writes = keep(std::move(writes_));
}

}  // namespace ptxemu::ir
