// The tensor-map codec against several hundred recorded calls of cuTensorMapEncodeTiled: the same
// bits, or the same refusal.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tma/tensor_map.hpp"

namespace ptxemu::tma {
namespace {

struct Recording {
  int code = 0;
  TensorMap map;
  TensorMapBits bits{};
};

template <class Enumerator>
Enumerator read_enumerator(std::istream& in) {
  unsigned value = 0;
  in >> value;
  return static_cast<Enumerator>(value);
}

Recording parse(const std::string& line) {
  std::istringstream in(line);
  Recording record;
  TensorMap& map = record.map;
  in >> record.code;
  map.type = read_enumerator<DataType>(in);
  in >> map.rank >> map.address;
  for (std::uint64_t& value : map.size) in >> value;
  for (unsigned d = 1; d < kMaxRank; ++d) in >> map.stride[d];
  for (std::uint32_t& value : map.box) in >> value;
  for (std::uint32_t& value : map.element_stride) in >> value;
  map.interleave = read_enumerator<Interleave>(in);
  map.swizzle = read_enumerator<Swizzle>(in);
  map.l2_promotion = read_enumerator<L2Promotion>(in);
  map.fill = read_enumerator<OutOfBoundsFill>(in);
  for (std::uint64_t& word : record.bits) in >> word;
  if (!in) throw std::runtime_error("damaged line: " + line);
  return record;
}

TEST(TensorMapRecordingTest, EveryCallGivesTheDriversAnswer) {
  std::ifstream file(PTXEMU_GOLDEN_BUNDLE "/tensor_maps.txt");
  int accepted = 0, refused = 0;
  for (std::string line; std::getline(file, line);) {
    const Recording record = parse(line);
    try {
      const TensorMapBits bits = encode(record.map);
      EXPECT_EQ(record.code, 0) << "the driver refuses: " << line;
      EXPECT_EQ(bits, record.bits) << line;
      ++accepted;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(record.code, 0) << "the driver accepts: " << line << "\n" << error.what();
      ++refused;
    }
  }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace ptxemu::tma
