// The pictures of the HTML report.
#pragma once

#include <string>

#include "report/run_report.hpp"

namespace jfa::tool {

// Users by history length, with the percentiles marked.
std::string length_chart(const RunReport& report);

// All histories side by side, longest first, in the rectangle that a padded batch would fill.
std::string padding_chart(const RunReport& report);

// Jagged next to padded.
std::string time_chart(const RunReport& report);
std::string memory_chart(const RunReport& report);

}  // namespace jfa::tool
