// Colour and width of the terminal, and numbers as a person reads them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace jfa::tool {

enum class Colour : std::uint8_t { plain, bold, dim, red, green, yellow, blue };

// Whether the stream is a terminal that takes colours: not with NO_COLOR, not with TERM=dumb.
bool is_terminal(std::FILE* stream);
bool takes_colours(std::FILE* stream);

// `text` in a colour when standard output takes colours, else unchanged.
std::string paint(Colour colour, std::string_view text);

std::string show_bytes(double bytes);        // "1.2 GiB"
std::string show_seconds(double seconds);    // "3.4 ms"
std::string show_count(std::int64_t count);  // "100,000"
std::string show_ratio(double ratio);        // "6.2×", "140×"
std::string show_percent(double share);      // "16.4 %"

// Number of columns that UTF-8 text takes on a terminal (one a code point).
std::size_t columns_of(std::string_view text);
std::string pad_left(std::string_view text, std::size_t width);
std::string pad_right(std::string_view text, std::size_t width);

// A bar of `width` columns filled to `share`, in eighths of a column.
std::string bar(double share, std::size_t width);

}  // namespace jfa::tool
