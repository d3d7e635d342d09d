#include "check/records.hpp"

namespace ptxemu::check {

RecordId Records::add(Record record) {
  RecordId& recent = recent_[record.agent % kRecent];
  if (recent != 0 && record.operation == nullptr) {
    Record& last = records_[recent / 32];
    if (last.operation == nullptr && last.instruction == record.instruction &&
        last.agent == record.agent && last.time == record.time && last.kind == record.kind &&
        last.strong == record.strong && last.cluster == record.cluster) {
      last.lanes |= record.lanes;
      last.sequence = record.sequence;
      return recent;
    }
  }
  records_.push_back(std::move(record));
  recent = static_cast<RecordId>((records_.size() - 1) * 32);
  return recent;
}

void Records::clear() {
  records_.assign(1, Record{});
  for (RecordId& recent : recent_) recent = 0;
}

}  // namespace ptxemu::check
