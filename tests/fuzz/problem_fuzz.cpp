// The one-line notation must refuse any bytes with InvalidArgument or parse them into a problem
// that prints and parses back to itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "jfa/jfa.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// Lists with few entries only: "0x50000000" is legal, but slow to make.
bool is_short_list(std::string_view text) {
  return text.find('x') == std::string_view::npos && text.find(':') == std::string_view::npos &&
         text.find('@') == std::string_view::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  try {
    const jfa::Problem problem = jfa::parse_problem(line);
    const std::string printed = jfa::to_string(problem);
    require(jfa::parse_problem(printed) == problem);
    require(jfa::to_string(jfa::parse_problem(printed)) == printed);
    if (is_short_list(problem.q.lengths.text)) jfa::generate_lengths(problem.q.lengths);
  } catch (const jfa::InvalidArgument& error) {
    require(std::string_view(error.what()).size() < 4096);
  }
  return 0;
}
