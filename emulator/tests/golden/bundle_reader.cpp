// The bundle's line format and the comparison of results.
#include "bundle_reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "numeric/convert.hpp"

namespace ptxemu::golden {
namespace {

constexpr std::size_t kDigestBlock = 256;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path + "; bundle.py writes it");
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

class Reader {
 public:
  Reader(std::istringstream& line, const std::string& blob) : line_(line), blob_(blob) {}

  template <class Number = std::uint64_t>
  Number number() {
    Number value{};
    if (!(line_ >> value)) throw std::runtime_error("golden bundle: a number is missing");
    return value;
  }
  std::string word() {
    std::string value;
    line_ >> value;
    return value;
  }
  std::string rest() {
    std::string value;
    std::getline(line_ >> std::ws, value);
    return value;
  }
  std::string piece() {
    const auto offset = number();
    const auto length = number();
    if (offset + length > blob_.size())
      throw std::runtime_error("golden bundle: a piece lies beyond the file");
    return blob_.substr(offset, length);
  }

 private:
  std::istringstream& line_;
  const std::string& blob_;
};

Bytes to_bytes(const std::string& text) {
  Bytes bytes;
  bytes.reserve(text.size());
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

MapArgument read_map(Reader& reader) {
  MapArgument argument;
  tma::TensorMap& map = argument.map;
  argument.buffer = reader.number<unsigned>();
  map.type = static_cast<tma::DataType>(reader.number());
  map.rank = reader.number<unsigned>();
  for (unsigned d = 0; d < map.rank; ++d) map.size[d] = reader.number();
  map.stride[0] = tma::element_bytes(map.type);
  for (unsigned d = 1; d < map.rank; ++d) map.stride[d] = reader.number();
  for (unsigned d = 0; d < map.rank; ++d) map.box[d] = reader.number<std::uint32_t>();
  for (unsigned d = 0; d < map.rank; ++d) map.element_stride[d] = reader.number<std::uint32_t>();
  map.swizzle = static_cast<tma::Swizzle>(reader.number());
  map.fill = static_cast<tma::OutOfBoundsFill>(reader.number());
  return argument;
}

void read_fact(const std::string& key, Reader& reader, Case& golden) {
  if (key == "kernel") golden.kernel = reader.word();
  if (key == "ptx") golden.ptx = reader.piece();
  if (key == "fault") golden.fault = reader.rest();
  if (key == "expect") golden.expected = to_bytes(reader.piece());
  if (key == "map") golden.arguments.emplace_back(read_map(reader));
  if (key == "word") {
    const auto bits = reader.number<unsigned>();
    golden.arguments.emplace_back(WordArgument{bits, reader.number()});
  }
  if (key == "buffer") {
    const auto bytes = reader.number();
    const bool output = reader.number() != 0;
    golden.arguments.emplace_back(BufferArgument{bytes, output, to_bytes(reader.piece())});
  }
  if (key == "launch") {
    golden.grid = reader.number<unsigned>();
    golden.block = reader.number<unsigned>();
    golden.cluster = reader.number<unsigned>();
    golden.shared_bytes = reader.number<unsigned>();
  }
  if (key == "compare") {
    golden.comparison.mode = reader.word();
    golden.comparison.element = reader.word();
    golden.comparison.tolerance = reader.number<double>();
  }
}

Bytes digest(const Bytes& data) {
  Bytes hashes;
  for (std::size_t start = 0; start < data.size(); start += kDigestBlock) {
    std::uint32_t hash = 0x811c9dc5u;
    for (std::size_t i = start; i < std::min(start + kDigestBlock, data.size()); ++i) {
      hash = (hash ^ static_cast<std::uint32_t>(data[i])) * 0x01000193u;
    }
    const std::size_t place = hashes.size();
    hashes.resize(place + sizeof hash);
    std::memcpy(hashes.data() + place, &hash, sizeof hash);
  }
  return hashes;
}

std::string hex(const Bytes& bytes, std::size_t offset, std::size_t count) {
  std::ostringstream text;
  text << std::hex;
  for (std::size_t i = std::min(offset + count, bytes.size()); i > offset; --i) {
    const auto value = static_cast<unsigned>(bytes[i - 1]);
    text << (value >> 4) << (value & 15);
  }
  return text.str();
}

std::string first_difference(const Bytes& got, const Bytes& expected, std::size_t unit,
                             std::size_t scale) {
  if (got.size() != expected.size()) return "sizes differ";
  for (std::size_t i = 0; i < got.size(); i += unit) {
    if (hex(got, i, unit) != hex(expected, i, unit)) {
      return "at byte " + std::to_string(i * scale) + ": " + hex(got, i, unit) + ", hardware " +
             hex(expected, i, unit);
    }
  }
  return {};
}

/// A floating-point element type and how finely it resolves.
struct Element {
  std::size_t bytes;
  int mantissa_bits;
  int min_exponent;
};

Element element_of(const std::string& name) {
  if (name == "f64") return {8, 52, -1022};
  if (name == "f32") return {4, 23, -126};
  if (name == "f16") return {2, 10, -14};
  if (name == "bf16") return {2, 7, -126};
  throw std::runtime_error("golden bundle: unknown element type " + name);
}

double value_at(const Bytes& bytes, std::size_t index, const std::string& name) {
  if (name == "f64") {
    double value;
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return value;
  }
  if (name == "f32") {
    float value;
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, bytes.data() + index * sizeof bits, sizeof bits);
  return numeric::decode(name == "f16" ? numeric::Format::f16 : numeric::Format::bf16, bits);
}

double allowed_error(const Comparison& comparison, const Element& element, double expected) {
  const double magnitude = std::fabs(expected);
  if (comparison.mode == "relative") return comparison.tolerance * magnitude;
  if (comparison.mode == "mixed") return comparison.tolerance * std::fmax(1, magnitude);
  if (comparison.mode == "absolute") return comparison.tolerance;
  const int exponent =
      magnitude > 0 ? std::max(std::ilogb(magnitude), element.min_exponent) : element.min_exponent;
  return std::ldexp(comparison.tolerance, exponent - element.mantissa_bits);
}

std::string value_difference(const Case& golden, const Bytes& output) {
  const Comparison& comparison = golden.comparison;
  const Element element = element_of(comparison.element);
  if (output.size() != golden.expected.size()) return "sizes differ";
  for (std::size_t i = 0; i < output.size() / element.bytes; ++i) {
    const double got = value_at(output, i, comparison.element);
    const double expected = value_at(golden.expected, i, comparison.element);
    if (std::isnan(got) && std::isnan(expected)) continue;
    if (got == expected &&
        (comparison.tolerance > 0 || std::signbit(got) == std::signbit(expected)))
      continue;
    if (std::fabs(got - expected) <= allowed_error(comparison, element, expected)) continue;
    std::ostringstream text;
    text.precision(17);
    text << "element " << i << ": " << got << " (" << hex(output, i * element.bytes, element.bytes)
         << "), hardware " << expected << " ("
         << hex(golden.expected, i * element.bytes, element.bytes) << ")";
    return text.str();
  }
  return {};
}

}  // namespace

std::vector<Case> read_cases(const std::string& folder, const std::string& group) {
  const std::string blob = read_file(folder + "/" + group + ".bin");
  std::istringstream lines(read_file(folder + "/" + group + ".cases"));
  std::vector<Case> cases;
  for (std::string text; std::getline(lines, text);) {
    std::istringstream line(text);
    std::string key;
    line >> key;
    Reader reader(line, blob);
    if (key == "case") {
      cases.emplace_back().name = reader.rest();
    } else if (!cases.empty()) {
      read_fact(key, reader, cases.back());
    }
  }
  return cases;
}

std::string difference(const Case& golden, const Bytes& output) {
  if (golden.comparison.mode == "exact") return first_difference(output, golden.expected, 4, 1);
  if (golden.comparison.mode == "digest")
    return first_difference(digest(output), golden.expected, 4, kDigestBlock / 4);
  return value_difference(golden, output);
}

}  // namespace ptxemu::golden
