// Any bytes are an event log or an EventLogError; nothing else. The first byte picks the options.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "events/event_log.hpp"
#include "events/histories.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const unsigned choice = data[0];
  jfa::tool::EventLogOptions options;
  const bool numbers = (choice & 1U) != 0;
  options.user_column = numbers ? "1" : "user";
  options.time_column = numbers ? "3" : "time";
  if ((choice & 2U) != 0) options.item_column = numbers ? "2" : "item";
  options.skip_bad_rows = (choice & 4U) != 0;
  options.quotes = (choice & 8U) == 0;
  if ((choice & 16U) != 0) options.delimiter = (choice & 32U) != 0 ? "::" : ",";

  std::istringstream input(std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  try {
    const jfa::tool::EventLog log = jfa::tool::read_event_log(input, "log", options);
    const jfa::tool::Histories histories = jfa::tool::build_histories(log, choice % 5);
    const auto statistics = jfa::tool::length_statistics(jfa::tool::lengths_of(histories));
    const auto kept = static_cast<std::int64_t>(histories.items.size());
    if (statistics.users != log.users || statistics.events != kept) std::abort();
    if (choice % 5 == 0 && histories.items.size() != log.events.size()) std::abort();
  } catch (const jfa::tool::EventLogError&) {
  }
  return 0;
}
