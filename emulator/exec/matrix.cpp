// Matrix instructions: wgmma as an asynchronous operation of a warpgroup, mma.sync, ldmatrix,
// stmatrix, movmatrix.
#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "exec/cluster.hpp"
#include "exec/groups.hpp"
#include "exec/opcodes.hpp"
#include "ir/kernel_builder.hpp"
#include "tensor/matrix_load.hpp"

namespace ptxemu::exec {
namespace {

using ir::Decode;
using ir::Type;
using tensor::ElementType;
using U32 = std::uint32_t;
using U64 = std::uint64_t;
using Kind = ptx::Operand::Kind;

constexpr unsigned kWarpgroup = 4;

/// One wgmma.mma_async of the four warps of a warpgroup. It reads its operands when it executes.
struct Wgmma final : AsyncOperation {
  std::array<U64, kWarpgroup> a_descriptor{}, b_descriptor{};
  std::array<bool, kWarpgroup> scale_d{};
  std::array<Warp*, kWarpgroup> warps{};
  unsigned arrived = 0;

  bool step(Cluster& cluster) override {
    const ir::WgmmaDetail& detail = cluster.launch().kernel->wgmma[instruction->detail];
    std::vector<tensor::LaneRegister> d;
    std::vector<tensor::ConstLaneRegister> a;
    for (Warp* member : warps) {
      for (const Operand& o : instruction->list) d.push_back(row(*member, o));
      for (const Operand& o : instruction->list2) a.push_back(row(*member, o));
    }
    tensor::WgmmaOperands operands;
    operands.a_descriptor = a_descriptor[0];
    operands.b_descriptor = b_descriptor[0];
    operands.a_major = detail.a_major;
    operands.b_major = detail.b_major;
    operands.negate_a = detail.negate_a;
    operands.negate_b = detail.negate_b;
    operands.scale_d = scale_d[0];
    operands.a_registers = a;
    operands.d_registers = d;
    if (ClusterObserver* observer = cluster.observer()) tell(*observer, detail, operands);
    cluster.finish_reads(*this);
    try {
      tensor::wgmma(detail.shape, operands, cta->shared);
    } catch (const std::out_of_range& problem) {
      cluster.launch().fault(ReportKind::out_of_bounds, instruction, problem.what());
    }
    cluster.add_flops(2ULL * 64 * detail.shape.n * detail.shape.k());
    cluster.finish(*this);
    return true;
  }

 private:
  static U32* row(Warp& warp, const Operand& o) {
    return reinterpret_cast<U32*>(warp.registers + o.offset);
  }
  void tell(ClusterObserver& observer, const ir::WgmmaDetail& detail,
            const tensor::WgmmaOperands& operands) const {
    std::vector<Access::Range> ranges;
    try {
      for (const U32 chunk : tensor::wgmma_footprint(detail.shape, operands)) {
        if (!ranges.empty() && ranges.back().address + ranges.back().bytes == chunk) {
          ranges.back().bytes += 16;
        } else {
          ranges.push_back({chunk, 16});
        }
      }
    } catch (const std::out_of_range&) {
      return;  // execution reports it
    }
    // What lies outside the CTA's memory is reported by the execution itself.
    std::erase_if(ranges,
                  [&](const Access::Range& r) { return r.address + r.bytes > cta->shared.size(); });
    Access access;
    access.agent = agent;
    access.proxy = Proxy::async;
    access.space = ir::Space::shared;
    access.cta = static_cast<std::uint8_t>(cta->rank);
    access.instruction = instruction;
    access.operation = id;
    access.ranges = ranges;
    observer.on_access(access);
  }
};

Action wgmma(Context& c, const Instruction& in, LaneMask lanes) {
  if (!c.converge_warp(in, lanes, true)) return Action::block;
  Warp& warp = *c.warp;
  const unsigned member = warp.index % kWarpgroup;
  const std::size_t group = warp.index / kWarpgroup;
  if ((group + 1) * kWarpgroup > c.cta->warps.size())
    c.fault(ReportKind::divergence, in, lanes,
            "wgmma needs a warpgroup of four warps; the block ends within this one");
  const U64 key = U64{c.cta->rank} << 56 | U64{group} << 48 | warp.wgmma_issued++;
  std::unique_ptr<AsyncOperation>& slot = c.cluster->gathering()[key];
  if (slot == nullptr) {
    slot = c.cluster->make_operation<Wgmma>(c, in, lanes, AgentKind::tensor_core,
                                            Completion::wgmma_group);
    slot->agent.index = static_cast<std::uint16_t>(group);
    slot->order = (U64{c.cta->rank} << 32 | group) + 1;
  }
  auto& operation = static_cast<Wgmma&>(*slot);
  if (operation.instruction != &in)
    c.fault(
        ReportKind::divergence, in, lanes,
        "the warps of a warpgroup execute different wgmma instructions; another warp is at line " +
            std::to_string(operation.instruction->line));
  // Descriptors and scale-d are read now; they are the same in all lanes and warps.
  const U64 a = in.a.present() ? c.uniform64(in.a, lanes) : 0;
  const U64 b = c.uniform64(in.b, lanes);
  const bool scale = (c.predicate(in.c) & 1) != 0;
  operation.a_descriptor[member] = a;
  operation.b_descriptor[member] = b;
  operation.scale_d[member] = scale;
  operation.warps[member] = &warp;
  for (int l = 1; l < kWarpSize; ++l) {
    if (c.row<const U64>(in.b)[l] != b || (in.a.present() && c.row<const U64>(in.a)[l] != a) ||
        ((c.predicate(in.c) >> l & 1) != 0) != scale)
      c.fault(ReportKind::bad_descriptor, in, LaneMask{1} << l,
              "a wgmma operand differs between the lanes of a warp");
  }
  warp.wgmma.add(operation.id, lanes);
  if (++operation.arrived < kWarpgroup) return Action::next;
  for (unsigned w = 1; w < kWarpgroup; ++w) {
    if (operation.a_descriptor[w] != operation.a_descriptor[0] ||
        operation.b_descriptor[w] != operation.b_descriptor[0] ||
        operation.scale_d[w] != operation.scale_d[0])
      c.fault(ReportKind::bad_descriptor, in, lanes,
              "a wgmma operand differs between the warps of the warpgroup");
  }
  for (const U64 bits : {a, b}) {
    if (bits == a && !in.a.present()) continue;
    if (std::string problem = tensor::descriptor_error(bits); !problem.empty())
      c.fault(ReportKind::bad_descriptor, in, lanes, problem);
  }
  std::unique_ptr<AsyncOperation> ready = std::move(slot);
  c.cluster->gathering().erase(key);
  ready->warp = &warp;
  c.cluster->issue(std::move(ready));
  return Action::next;
}

ElementType element(Decode& d, Type type) {
  switch (type) {
    case Type::f16:
      return ElementType::f16;
    case Type::bf16:
      return ElementType::bf16;
    case Type::tf32:
      return ElementType::tf32;
    case Type::e4m3:
      return ElementType::e4m3;
    case Type::e5m2:
      return ElementType::e5m2;
    case Type::s8:
      return ElementType::s8;
    case Type::u8:
      return ElementType::u8;
    case Type::f32:
      return ElementType::f32;
    case Type::f64:
      return ElementType::f64;
    case Type::s32:
      return ElementType::s32;
    default:
      d.unsupported("element type ." + std::string(ir::to_string(type)) + " is not supported");
  }
}

/// m64n128k16 and the like.
std::array<unsigned, 3> shape(Decode& d) {
  for (const std::string_view m : d.modifiers) {
    std::array<unsigned, 3> result{};
    const char* at = m.data();
    const char* end = at + m.size();
    bool ok = true;
    for (const char letter : {'m', 'n', 'k'}) {
      ok = ok && at != end && *at == letter;
      if (!ok) break;
      const auto parsed = std::from_chars(at + 1, end,
                                          result[letter == 'm'   ? 0
                                                 : letter == 'n' ? 1
                                                                 : 2]);
      ok = parsed.ec == std::errc{};
      at = parsed.ptr;
    }
    if (ok && at == end) return result;
  }
  d.fail("no shape modifier");
}

bool minus_one(Decode& d, std::size_t i) {
  const std::int64_t value = d.constant(i, -1, 1);
  if (value == 0) d.fail("imm-scale is 1 or -1");
  return value < 0;
}

void bind_wgmma(Decode& d) {
  d.out.category = ir::Category::wgmma;
  const auto [m, n, k] = shape(d);
  ir::WgmmaDetail detail;
  const Type result = d.type(0);
  detail.shape.n = n;
  detail.shape.d = element(d, result);
  detail.shape.a = element(d, d.type(1));
  detail.shape.b = element(d, d.type(2));
  detail.shape.satfinite = d.has("satfinite");
  if (std::string problem = tensor::wgmma_error(detail.shape); !problem.empty())
    d.unsupported(problem);
  if (m != 64 || k != detail.shape.k())
    d.unsupported("the shape for these types is m64n" + std::to_string(n) + "k" +
                  std::to_string(detail.shape.k()));
  d.out.type = result;
  const std::size_t registers = detail.shape.d_registers();
  d.out.list = d.destinations(d.operand(0), Type::b32, registers);
  for (const Operand& o : d.out.list) {
    if (o.width != ir::Width::bits32 || !o.is_register())
      d.fail("accumulators are 32-bit registers");
  }
  d.out.c = d.predicate(d.operand(3));
  if (d.out.c.bank != ir::Bank::constants)
    d.sources(d.operand(0), Type::b32, registers);  // D is read, too
  const bool from_registers = d.operand(1).kind == Kind::vector;
  if (from_registers) {
    d.out.list2 = d.sources(d.operand(1), Type::b32, tensor::kWgmmaARegisters);
    for (const Operand& o : d.out.list2) {
      if (o.width != ir::Width::bits32 || !o.is_register())
        d.fail("A fragments are 32-bit registers");
    }
  } else {
    d.out.a = d.source(1, Type::b64);
  }
  d.out.b = d.source(2, Type::b64);
  const bool integer = detail.shape.d == ElementType::s32;
  const bool half = detail.shape.a == ElementType::f16 || detail.shape.a == ElementType::bf16;
  std::size_t next = 4;
  if (!integer) {
    detail.negate_a = minus_one(d, next++);
    detail.negate_b = minus_one(d, next++);
    if (half) {
      if (!from_registers)
        detail.a_major = d.constant(next++, 0, 1) != 0 ? tensor::Major::mn : tensor::Major::k;
      detail.b_major = d.constant(next++, 0, 1) != 0 ? tensor::Major::mn : tensor::Major::k;
    }
  }
  d.require_operands(next, next);
  auto& details = d.builder().kernel().wgmma;
  d.out.detail = static_cast<U32>(details.size());
  details.push_back(detail);
  d.out.handler = wgmma;
}

Action wgmma_fence(Context& c, const Instruction& in, LaneMask lanes) {
  if (!c.converge_warp(in, lanes, true)) return Action::block;
  if (c.observer != nullptr) {
    FenceEvent event;
    event.kind = FenceKind::wgmma;
    event.agent = c.agent();
    event.lanes = lanes;
    event.instruction = &in;
    c.observer->on_fence(event);
  }
  return Action::next;
}
Action wgmma_commit(Context& c, const Instruction& in, LaneMask lanes) {
  if (!c.converge_warp(in, lanes, true)) return Action::block;
  commit_group(c, in, lanes, GroupKind::wgmma);
  return Action::next;
}
Action wgmma_wait(Context& c, const Instruction& in, LaneMask lanes) {
  if (!c.converge_warp(in, lanes, true)) return Action::block;
  return wait_group(c, in, lanes, GroupKind::wgmma, static_cast<U32>(in.immediate), false);
}
template <ir::Handler kHandler, bool kCount>
void bind_wgmma_sync(Decode& d) {
  d.require_operands(kCount ? 1 : 0, kCount ? 1 : 0);
  d.out.category = ir::Category::wgmma_sync;
  if (kCount) d.out.immediate = d.constant(0, 0, 7);
  d.out.handler = kHandler;
}

/// Rows of 32-bit lane registers; 64-bit registers are split into low and high words.
class Fragment {
 public:
  Fragment(Context& c, std::span<const Operand> operands) : context_(c), operands_(operands) {
    words_.reserve(operands.size() * 2);
    for (const Operand& o : operands) {
      if (o.width != ir::Width::bits64) {
        rows_.push_back(c.row<U32>(o));
        continue;
      }
      const auto* value = c.row<const U64>(o);
      for (unsigned part = 0; part < 2; ++part) {
        auto& words = words_.emplace_back();
        for (std::size_t l = 0; l < kWarpSize; ++l)
          words[l] = static_cast<U32>(value[l] >> (32 * part));
        rows_.push_back(words.data());
      }
    }
  }
  void write_back() {
    std::size_t at = 0;
    for (const Operand& o : operands_) {
      if (o.width != ir::Width::bits64) continue;
      auto* value = context_.row<U64>(o);
      for (std::size_t l = 0; l < kWarpSize; ++l)
        value[l] = words_[at][l] | U64{words_[at + 1][l]} << 32;
      at += 2;
    }
  }
  std::span<U32* const> rows() { return rows_; }
  std::vector<const U32*> inputs() const { return {rows_.begin(), rows_.end()}; }

 private:
  Context& context_;
  std::span<const Operand> operands_;
  std::vector<std::array<U32, kWarpSize>> words_;
  std::vector<U32*> rows_;
};

Action mma(Context& c, const Instruction& in, LaneMask lanes) {
  if (!c.converge_warp(in, lanes, true)) return Action::block;
  const ir::MmaDetail& detail = c.launch->kernel->mma[in.detail];
  Fragment d(c, detail.d);
  const auto a = Fragment(c, in.list2);
  const auto b = Fragment(c, in.list3);
  const auto addend = Fragment(c, in.list);
  tensor::mma(detail.shape, a.inputs(), b.inputs(), addend.inputs(), d.rows());
  d.write_back();
  c.cluster->add_flops(2ULL * detail.shape.m * detail.shape.n * detail.shape.k);
  return Action::next;
}

void bind_mma(Decode& d) {
  d.require_operands(4, 4);
  d.out.category = ir::Category::matrix_multiply;
  const auto [m, n, k] = shape(d);
  ir::MmaDetail detail;
  detail.shape.m = m;
  detail.shape.n = n;
  detail.shape.k = k;
  detail.shape.d = element(d, d.type(0));
  detail.shape.a = element(d, d.type(1));
  detail.shape.b = element(d, d.type(2));
  detail.shape.c = element(d, d.type(3));
  detail.shape.satfinite = d.has("satfinite");
  const auto layout = [&](std::size_t i) {
    for (const std::string_view mod : d.modifiers) {
      if (mod != "row" && mod != "col") continue;
      if (i-- == 0) return mod;
    }
    d.fail("mma needs two layouts, e.g. .row.col");
  };
  detail.shape.a_column_major = layout(0) == "col";
  detail.shape.b_row_major = layout(1) == "row";
  if (std::string problem = tensor::mma_error(detail.shape); !problem.empty())
    d.unsupported(problem);
  const tensor::MmaRegisters registers = tensor::mma_registers(detail.shape);
  const auto width = [](Type type) { return type == Type::f64 ? Type::b64 : Type::b32; };
  const auto count = [](Type type, unsigned words) {
    return type == Type::f64 ? words / 2 : words;
  };
  d.out.type = d.type(0);
  d.out.source_type = d.type(1);
  const auto check = [&](std::span<const Operand> list, Type type) {
    for (const Operand& o : list) {
      if (o.width != ir::width_of(width(type)) || !o.present())
        d.fail("a fragment register has the wrong size");
    }
    return list;
  };
  detail.d = check(d.destinations(d.operand(0), width(d.type(0)), count(d.type(0), registers.d)),
                   d.type(0));
  d.out.list2 =
      check(d.sources(d.operand(1), width(d.type(1)), count(d.type(1), registers.a)), d.type(1));
  d.out.list3 =
      check(d.sources(d.operand(2), width(d.type(2)), count(d.type(2), registers.b)), d.type(2));
  d.out.list =
      check(d.sources(d.operand(3), width(d.type(3)), count(d.type(3), registers.c)), d.type(3));
  auto& details = d.builder().kernel().mma;
  d.out.detail = static_cast<U32>(details.size());
  details.push_back(detail);
  d.out.handler = mma;
}

// ldmatrix and stmatrix: Instruction::flags bit 0 = transposed; the number of matrices is
// list.size().
template <bool kLoad>
Action move_matrices(Context& c, const Instruction& in, LaneMask lanes) {
  if (!c.converge_warp(in, lanes, true)) return Action::block;
  const std::size_t count = in.list.size();
  const LaneMask used = count == 4 ? kFullMask : (LaneMask{1} << (8 * count)) - 1;
  Context::Addresses addresses;
  Context::Pointers pointers;
  c.addresses(in.addresses[0], lanes, addresses);
  c.resolve(in,
            {in.space, kLoad ? AccessKind::read : AccessKind::write, 16, 16, Proxy::generic, kLoad},
            used, addresses, pointers);
  std::array<tensor::MatrixRow, kWarpSize> rows;
  const std::span<tensor::MatrixRow> used_rows{rows.data(), 8 * count};
  const bool transposed = (in.flags & 1) != 0;
  if constexpr (kLoad) {
    for (std::size_t r = 0; r < used_rows.size(); ++r) std::memcpy(rows[r].data(), pointers[r], 16);
    std::array<tensor::LaneRegister, 4> out{};
    for (std::size_t i = 0; i < count; ++i) out[i] = c.row<U32>(in.list[i]);
    tensor::load_matrices(used_rows, transposed, {out.data(), count});
  } else {
    std::array<tensor::ConstLaneRegister, 4> from{};
    for (std::size_t i = 0; i < count; ++i) from[i] = c.row<const U32>(in.list[i]);
    tensor::store_matrices({from.data(), count}, transposed, used_rows);
    for (std::size_t r = 0; r < used_rows.size(); ++r) std::memcpy(pointers[r], rows[r].data(), 16);
  }
  return Action::next;
}
template <bool kLoad>
void bind_move_matrices(Decode& d) {
  d.require_operands(2, 2);
  d.out.category = ir::Category::matrix_load;
  d.out.space = d.space();
  d.out.flags = d.has("trans") ? 1 : 0;
  const std::size_t count = d.has("x4") ? 4 : d.has("x2") ? 2 : 1;
  if (kLoad) {
    d.out.list = d.destinations(d.operand(0), Type::b32, count);
    d.address(1);
  } else {
    d.address(0);
    d.out.list = d.sources(d.operand(1), Type::b32, count);
  }
  for (const Operand& o : d.out.list) {
    if (o.width != ir::Width::bits32) d.fail("matrix registers have 32 bits");
  }
  d.out.handler = move_matrices<kLoad>;
}

Action transpose(Context& c, const Instruction& in, LaneMask lanes) {
  if (!c.converge_warp(in, lanes, true)) return Action::block;
  std::array<tensor::MatrixRow, 8> rows;
  const tensor::ConstLaneRegister from = c.row<const U32>(in.a);
  tensor::store_matrices({&from, 1}, false, rows);
  const tensor::LaneRegister to = c.row<U32>(in.d);
  tensor::load_matrices(rows, true, {&to, 1});
  return Action::next;
}
void bind_movmatrix(Decode& d) {
  d.require_operands(2, 2);
  d.out.category = ir::Category::matrix_load;
  d.out.d = d.destination(0, Type::b32);
  d.out.a = d.source(1, Type::b32);
  d.out.handler = transpose;
}

constexpr ir::OpcodeRow kRows[] = {
    {"wgmma.mma_async",
     "sync aligned m64n#k8|m64n#k16|m64n#k32 [satfinite] f16|bf16|tf32|e4m3|e5m2|s8|u8|f32|s32+",
     bind_wgmma, "dense; A from shared memory or registers, both majors for 16-bit types"},
    {"wgmma.fence", "sync aligned", bind_wgmma_sync<wgmma_fence, false>},
    {"wgmma.commit_group", "sync aligned", bind_wgmma_sync<wgmma_commit, false>},
    {"wgmma.wait_group", "sync aligned", bind_wgmma_sync<wgmma_wait, true>},
    {"mma",
     "sync aligned m8n8k#|m16n8k# row|col+ [satfinite] f16|bf16|tf32|e4m3|e5m2|s8|u8|f32|f64|s32+",
     bind_mma, "dense"},
    {"ldmatrix", "sync aligned m8n8 x1|x2|x4 [trans] [shared|shared::cta] b16",
     bind_move_matrices<true>},
    {"stmatrix", "sync aligned m8n8 x1|x2|x4 [trans] [shared|shared::cta] b16",
     bind_move_matrices<false>},
    {"movmatrix", "sync aligned m8n8 trans b16", bind_movmatrix},
};

}  // namespace

std::span<const ir::OpcodeRow> matrix_opcodes() {
  return kRows;
}

}  // namespace ptxemu::exec
