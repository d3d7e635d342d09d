// vprintf and assertions.
#include "exec/builtins.hpp"

#include <cstdio>

#include "exec/cluster.hpp"

namespace ptxemu::exec {
namespace {

constexpr std::size_t kMaxText = 4096;  // longest string that is followed

/// Reads memory of one lane through its generic address.
class LaneReader {
 public:
  LaneReader(Context& context, const Instruction& in, LaneMask lane)
      : context_(context), in_(in), lane_(lane) {}

  void read(std::uint64_t address, void* out, std::uint32_t bytes) {
    Context::Addresses addresses{};
    Context::Pointers pointers{};
    const auto l = static_cast<std::size_t>(std::countr_zero(lane_));
    addresses[l] = address;
    context_.resolve(in_, {ir::Space::generic, AccessKind::read, bytes, 1}, lane_, addresses,
                     pointers);
    std::memcpy(out, pointers[l], bytes);
  }
  std::string text(std::uint64_t address) {
    std::string result;
    if (address == 0) return "(null)";
    for (char c = 0; result.size() < kMaxText; result += c, ++address) {
      read(address, &c, 1);
      if (c == '\0') break;
    }
    return result;
  }

 private:
  Context& context_;
  const Instruction& in_;
  LaneMask lane_;
};

std::uint64_t argument(Context& c, LaneMask lane, const ir::CallSite& site, std::size_t i) {
  const ir::FrameSlot& slot = site.arguments[i];
  std::uint64_t value = 0;
  std::memcpy(&value,
              c.warp->local[static_cast<std::size_t>(std::countr_zero(lane))].data() +
                  c.split->frame + slot.offset,
              std::min(slot.bytes, 8u));
  return value;
}

void set_result(Context& c, LaneMask lane, const ir::CallSite& site, std::uint64_t value) {
  if (site.results.empty()) return;
  const ir::FrameSlot& slot = site.results[0];
  std::memcpy(c.warp->local[static_cast<std::size_t>(std::countr_zero(lane))].data() +
                  c.split->frame + slot.offset,
              &value, std::min(slot.bytes, 8u));
}

/// C's printf on a buffer of arguments in their natural alignment. Returns the number of arguments.
int format(LaneReader& reader, const std::string& pattern, std::uint64_t buffer, std::string& out) {
  std::uint64_t offset = 0;
  int count = 0;
  const auto next = [&](std::uint32_t bytes) {
    offset = (offset + bytes - 1) / bytes * bytes;
    std::uint64_t value = 0;
    reader.read(buffer + offset, &value, bytes);
    offset += bytes;
    return value;
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out += pattern[i];
      continue;
    }
    if (i + 1 < pattern.size() && pattern[i + 1] == '%') {
      out += '%';
      ++i;
      continue;
    }
    std::string spec = "%";
    std::size_t j = i + 1;
    bool wide = false;
    unsigned longs = 0;
    for (; j < pattern.size() && spec.size() < 32; ++j) {
      const char ch = pattern[j];
      if (ch == '*') {
        spec += std::to_string(static_cast<int>(next(4)) % 1024);
        ++count;
      } else if (std::string_view("-+ #.0123456789").find(ch) != std::string_view::npos) {
        spec += ch;
      } else if (ch == 'l' || ch == 'z' || ch == 'j' || ch == 't') {
        wide = true;
        ++longs;
      } else if (ch != 'h') {
        break;
      }
    }
    if (j >= pattern.size() || longs > 2) {
      out += pattern.substr(i);
      return count;
    }
    char text[1600];
    const char kind = pattern[j];
    i = j;
    ++count;
    // Widths beyond the buffer are cut by snprintf.
    switch (kind) {
      case 'd':
      case 'i': {
        const std::int64_t value =
            wide ? static_cast<std::int64_t>(next(8)) : static_cast<std::int32_t>(next(4));
        std::snprintf(text, sizeof text, (spec + "lld").c_str(), static_cast<long long>(value));
        break;
      }
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        std::snprintf(text, sizeof text, (spec + "ll" + kind).c_str(),
                      static_cast<unsigned long long>(next(wide ? 8 : 4)));
        break;
      case 'c':
        std::snprintf(text, sizeof text, (spec + kind).c_str(), static_cast<int>(next(4)));
        break;
      case 'p':
        std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(next(8)));
        break;
      case 's':
        std::snprintf(text, sizeof text, (spec + kind).c_str(), reader.text(next(8)).c_str());
        break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        std::snprintf(text, sizeof text, (spec + kind).c_str(), std::bit_cast<double>(next(8)));
        break;
      default:
        std::snprintf(text, sizeof text, "%%%c", kind);
    }
    out += text;
  }
  return count;
}

void print(Context& c, const Instruction& in, LaneMask lane, const ir::CallSite& site) {
  LaneReader reader(c, in, lane);
  std::string out;
  const int count =
      format(reader, reader.text(argument(c, lane, site, 0)), argument(c, lane, site, 1), out);
  c.launch->print(out);
  set_result(c, lane, site, static_cast<std::uint64_t>(count));
}

void assertion_failed(Context& c, const Instruction& in, LaneMask lane, const ir::CallSite& site) {
  LaneReader reader(c, in, lane);
  c.fault(ReportKind::assertion, in, lane,
          "assertion `" + reader.text(argument(c, lane, site, 0)) + "` failed at " +
              reader.text(argument(c, lane, site, 1)) + ":" +
              std::to_string(static_cast<std::uint32_t>(argument(c, lane, site, 2))) + " in " +
              reader.text(argument(c, lane, site, 3)));
}

}  // namespace

ir::Builtin find_builtin(std::string_view name) {
  if (name == "vprintf") return ir::Builtin::vprintf;
  if (name == "__assertfail") return ir::Builtin::assertfail;
  return ir::Builtin::none;
}

void check_builtin(ir::Decode& d, const ir::CallSite& site) {
  const std::size_t needed = site.builtin == ir::Builtin::vprintf ? 2 : 4;
  if (site.arguments.size() < needed)
    d.fail("call passes " + std::to_string(site.arguments.size()) + " values, the function takes " +
           std::to_string(needed));
}

ir::Action call_builtin(Context& c, const Instruction& in, LaneMask lanes,
                        const ir::CallSite& site) {
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const LaneMask lane = rest & (0 - rest);
    if (site.builtin == ir::Builtin::vprintf) {
      print(c, in, lane, site);
    } else {
      assertion_failed(c, in, lane, site);
    }
  }
  return ir::Action::next;
}

}  // namespace ptxemu::exec
