// Parsing of ptxrun's arguments.
#include "tool/arguments.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "numeric/convert.hpp"

namespace ptxemu::tool {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

template <typename T>
T number(const std::string& text, const std::string& where) {
  T value{};
  const char* begin = text.data();
  const char* end = begin + text.size();
  std::from_chars_result result{};
  if constexpr (std::is_integral_v<T>) {
    const bool hex = text.starts_with("0x");
    result = std::from_chars(begin + (hex ? 2 : 0), end, value, hex ? 16 : 10);
  } else {
    result = std::from_chars(begin, end, value);
  }
  if (result.ec != std::errc{} || result.ptr != end)
    fail("'" + text + "' in '" + where + "' is not a number in range");
  return value;
}

template <typename T>
Argument scalar(const std::string& text, const std::string& where) {
  const T value = number<T>(text, where);
  Argument argument;
  argument.value.resize(sizeof value);
  std::memcpy(argument.value.data(), &value, sizeof value);
  return argument;
}

Argument memory(Device& device, const std::vector<std::byte>& content) {
  Argument argument;
  argument.bytes = content.size();
  argument.buffer = device.allocate(content.size());
  device.copy_to_device(argument.buffer, content.data(), content.size());
  argument.value.resize(sizeof argument.buffer);
  std::memcpy(argument.value.data(), &argument.buffer, sizeof argument.buffer);
  return argument;
}

Argument buffer(Device& device, const std::vector<std::string>& parts, const std::string& text) {
  const auto bytes = number<std::uint64_t>(parts[1], text);
  const std::string fill = parts.size() > 2 ? parts[2] : "zero";
  if (fill == "nan") {  // as allocated: never written
    Argument argument;
    argument.bytes = bytes;
    argument.buffer = device.allocate(bytes);
    argument.value.resize(sizeof argument.buffer);
    std::memcpy(argument.value.data(), &argument.buffer, sizeof argument.buffer);
    return argument;
  }
  if (bytes > std::uint64_t{1} << 34) fail("'" + text + "' is larger than 16 GiB");
  std::vector<std::byte> content(bytes);
  std::mt19937 generator(7);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  for (std::uint64_t i = 0; i + 4 <= bytes && fill != "zero"; i += 4) {
    if (fill != "random" && fill != "iota")
      fail("fill '" + fill + "' in '" + text + "'; allowed: zero, nan, random, iota");
    const float value = fill == "random" ? uniform(generator) : static_cast<float>(i / 4);
    std::memcpy(content.data() + i, &value, 4);
  }
  return memory(device, content);
}

}  // namespace

Argument parse_argument(Device& device, const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  const std::string& kind = parts[0];
  if (parts.size() >= 2) {
    if (kind == "u32") return scalar<std::uint32_t>(parts[1], text);
    if (kind == "s32") return scalar<std::int32_t>(parts[1], text);
    if (kind == "u64") return scalar<std::uint64_t>(parts[1], text);
    if (kind == "s64") return scalar<std::int64_t>(parts[1], text);
    if (kind == "f32") return scalar<float>(parts[1], text);
    if (kind == "f64") return scalar<double>(parts[1], text);
    if (kind == "buffer") return buffer(device, parts, text);
    if (kind == "file") {
      std::ifstream file(text.substr(5), std::ios::binary);
      if (!file) fail("cannot read '" + text.substr(5) + "'");
      std::ostringstream stream;
      stream << file.rdbuf();
      const std::string content = stream.str();
      std::vector<std::byte> bytes(content.size());
      std::memcpy(bytes.data(), content.data(), content.size());
      return memory(device, bytes);
    }
  }
  fail("argument '" + text +
       "'; allowed: u32:N s32:N u64:N s64:N f32:X f64:X buffer:BYTES[:zero|nan|random|iota] "
       "file:PATH");
}

std::string print_buffer(const Device& device, const std::vector<Argument>& arguments,
                         const std::string& request) {
  const std::vector<std::string> parts = split(request, ':');
  if (parts.size() < 2) fail("--print takes INDEX:TYPE[:COUNT], not '" + request + "'");
  const auto index = number<std::size_t>(parts[0], request);
  if (index >= arguments.size() || arguments[index].buffer == 0)
    fail("--print " + request + ": argument " + parts[0] + " is not a buffer");
  const std::string& type = parts[1];
  const std::size_t size = type == "f16" || type == "bf16"  ? 2
                           : type == "f64" || type == "u64" ? 8
                                                            : 4;
  if (type != "f16" && type != "bf16" && type != "f32" && type != "f64" && type != "u32" &&
      type != "s32" && type != "u64")
    fail("--print type '" + type + "'; allowed: f16 bf16 f32 f64 u32 s32 u64");
  const std::uint64_t available = arguments[index].bytes / size;
  const std::uint64_t count =
      std::min(available, parts.size() > 2 ? number<std::uint64_t>(parts[2], request) : available);
  std::string text;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t bits = 0;
    device.copy_to_host(&bits, arguments[index].buffer + i * size, size);
    char item[40];
    if (type == "u32" || type == "u64") {
      std::snprintf(item, sizeof item, "%llu", static_cast<unsigned long long>(bits));
    } else if (type == "s32") {
      std::snprintf(item, sizeof item, "%d", static_cast<std::int32_t>(bits));
    } else {
      double value = 0;
      if (type == "f64") std::memcpy(&value, &bits, 8);
      float single = 0;
      std::memcpy(&single, &bits, 4);
      if (type == "f32") value = single;
      if (type == "f16") value = numeric::f16_to_f32(static_cast<std::uint16_t>(bits));
      if (type == "bf16") value = numeric::bf16_to_f32(static_cast<std::uint16_t>(bits));
      std::snprintf(item, sizeof item, "%.9g", value);
    }
    text += item;
    text += i + 1 < count ? ' ' : '\n';
  }
  return text;
}

Dim3 parse_dimensions(const std::string& text) {
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() > 3) fail("'" + text + "' has more than three dimensions");
  Dim3 result;
  result.x = number<std::uint32_t>(parts[0], text);
  if (parts.size() > 1) result.y = number<std::uint32_t>(parts[1], text);
  if (parts.size() > 2) result.z = number<std::uint32_t>(parts[2], text);
  return result;
}

}  // namespace ptxemu::tool
