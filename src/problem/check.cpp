#include "jfa/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <string_view>
#include <utility>

#include "api/call.hpp"
#include "api/scalar.hpp"
#include "problem/two_pass.hpp"

namespace jfa {
namespace {

using detail::Call;
using detail::for_each_index;
using detail::real_at;
using Index = std::array<std::int64_t, 4>;

struct Tolerance {
  double relative;  // of outputs; gradients have twice that
  double unit;      // unit roundoff of the type
};

Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return {5e-3, 0x1p-8};
    case DType::float16:
      return {8e-4, 0x1p-11};
    default:
      return {2e-6, 0x1p-24};
  }
}

// Owns row-major float64 results; a deque, so that addresses stay.
class Storage {
 public:
  // A float64 tensor of the same shape; absent stays absent.
  Tensor like(const Tensor& tensor) {
    if (!tensor.present()) return {};
    Tensor copy = tensor;
    copy.dtype = DType::float64;
    std::int64_t stride = 1;
    for (std::size_t axis = static_cast<std::size_t>(tensor.rank); axis-- > 0;) {
      copy.strides[axis] = stride;
      stride *= std::max<std::int64_t>(tensor.shape[axis], 1);
    }
    copy.data = blocks_
                    .emplace_back(static_cast<std::size_t>(tensor.elements()),
                                  std::numeric_limits<double>::quiet_NaN())
                    .data();
    return copy;
  }

  ForwardArgs results(ForwardArgs args) {
    for (Tensor* tensor : {&args.out, &args.lse}) *tensor = like(*tensor);
    return args;
  }

  BackwardArgs results(BackwardArgs args) {
    args.out = {};
    args.lse = {};
    for (Tensor* tensor : {&args.d_q, &args.d_k, &args.d_v, &args.d_bias_dense,
                           &args.d_alibi_slopes, &args.d_position_table, &args.d_time_table}) {
      *tensor = like(*tensor);
    }
    return args;
  }

 private:
  std::deque<std::vector<double>> blocks_;
};

// Which sequence a row belongs to, for messages.
class Places {
 public:
  Places(const AttentionArgs& args, const Call& call) : args_(args), call_(call) {}

  // Index of an element of the named tensor in words.
  std::string text(std::string_view tensor, const Tensor& shape, const Index& index) const {
    if (tensor == "lse") {
      return fmt::format("{} head {}", row_text(true, false, index[1]), index[0]);
    }
    const bool is_out = tensor == "out";
    const bool is_query = is_out || tensor == "d_q";
    if (is_query || tensor == "d_k" || tensor == "d_v") {
      if (shape.rank == 4) {
        return fmt::format("sequence {} row {} head {} column {}", index[0], index[1], index[2],
                           index[3]);
      }
      const bool broadcast =
          (is_query ? args_.q_sequences : args_.kv_sequences).layout == Layout::broadcast;
      return fmt::format("{} head {} column {}", row_text(is_query, broadcast, index[0]), index[1],
                         index[2]);
    }
    std::string text = "index";
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(shape.rank); ++axis) {
      text += fmt::format("{}{}", axis == 0 ? " " : ", ", index[axis]);
    }
    return text;
  }

 private:
  // `row` counts all rows of a tensor.
  std::string row_text(bool query, bool broadcast, std::int64_t row) const {
    if (broadcast) return fmt::format("row {} (of all sequences)", row);
    for (const detail::SequenceView& sequence : call_.sequences) {
      const std::int64_t first = query ? sequence.out_row : sequence.k_first;
      const std::int64_t length = query ? sequence.q_length : sequence.k_length;
      if (row >= first && row < first + length) {
        return fmt::format("sequence {} row {}", query ? sequence.index : sequence.kv_index,
                           row - first);
      }
    }
    return fmt::format("slack or hole row {}", row);
  }

  const AttentionArgs& args_;
  const Call& call_;
};

// What decides on each element.
struct Compared {
  std::string_view name;
  Tensor engine;
  Tensor reference;
  Tensor two_pass;
  Tensor floor;
  double tolerance;
};

// The reference's value as the engine's type can hold it: beyond the range it is infinite.
double representable(DType dtype, double value) {
  if (dtype == DType::float16)
    return std::abs(value) < 65520 ? value : std::copysign(INFINITY, value);
  const double most = dtype == DType::bfloat16 ? 0x1.ffp127 : 0x1.ffffffp127;
  return std::abs(value) < most ? value : std::copysign(INFINITY, value);
}

class Comparison {
 public:
  Comparison(const Compared& compared, double unit, const Places& places)
      : t_(compared), unit_(unit), places_(places) {}

  TensorCheck run() {
    result_.tensor = t_.name;
    measure();
    find_bad_elements();
    const bool too_large = !(result_.relative_error <= result_.allowed_relative_error);
    if (result_.first_bad.empty() && too_large) {
      result_.first_bad =
          fmt::format("relative error too large; largest error at {}", describe(worst_index_));
    }
    return std::move(result_);
  }

 private:
  double engine(const Index& index) const { return real_at(t_.engine, index); }
  double reference(const Index& index) const {
    return representable(t_.engine.dtype, real_at(t_.reference, index));
  }

  void measure() {
    double error = 0;
    double norm = 0;
    double two_pass_error = 0;
    double floor_norm = 0;
    double worst_two_pass = 0;
    double largest = 0;
    double largest_floor = 0;
    for_each_index(t_.engine, [&](const Index& index) {
      const double r = reference(index);
      if (!std::isfinite(r)) return;
      const double e = std::abs(engine(index) - r);
      const double b = std::abs(real_at(t_.two_pass, index) - r);
      const double f = real_at(t_.floor, index);
      error += e * e;
      norm += r * r;
      floor_norm += f * f;
      largest = std::max(largest, std::abs(r));
      largest_floor = std::max(largest_floor, f);
      if (std::isfinite(b)) {
        two_pass_error += b * b;
        worst_two_pass = std::max(worst_two_pass, b);
      }
      if (!(e <= result_.worst_error)) {
        result_.worst_error = std::isnan(e) ? INFINITY : e;
        worst_index_ = index;
      }
    });
    const double divisor = norm > 0 ? std::sqrt(norm) : 1;
    result_.relative_error = std::isnan(error) ? INFINITY : std::sqrt(error) / divisor;
    result_.allowed_relative_error = std::max(
        {t_.tolerance, 2 * std::sqrt(two_pass_error) / divisor, std::sqrt(floor_norm) / divisor});
    result_.allowed_worst_error = 2 * worst_two_pass + 2 * unit_ * largest + largest_floor;
  }

  // NaN is good nowhere: every comparison with it fails.
  bool good(const Index& index) const {
    const double x = engine(index);
    const double r = reference(index);
    const bool nothing_contributes = r == 0 && real_at(t_.floor, index) == 0;
    if (nothing_contributes || !std::isfinite(r)) return x == r;
    return std::abs(x - r) <= result_.allowed_worst_error;
  }

  void find_bad_elements() {
    for_each_index(t_.engine, [&](const Index& index) {
      if (good(index)) return;
      if (result_.bad_elements++ == 0) result_.first_bad = describe(index);
    });
  }

  std::string describe(const Index& index) const {
    if (t_.engine.elements() == 0) return "nowhere";
    const double got = engine(index);
    return fmt::format("{}: got {:.9g}, expected {:.9g}", places_.text(t_.name, t_.engine, index),
                       std::isnan(got) ? std::abs(got) : got, real_at(t_.reference, index));
  }

  const Compared& t_;
  double unit_;
  const Places& places_;
  TensorCheck result_;
  Index worst_index_{};
};

void compare_all(std::initializer_list<Compared> tensors, const Places& places,
                 CheckReport& report) {
  for (const Compared& compared : tensors) {
    if (!compared.engine.present()) continue;
    const double unit = tolerance_of(compared.engine.dtype).unit;
    report.tensors.push_back(Comparison(compared, unit, places).run());
  }
}

void check_forward(const ForwardArgs& args, CheckReport& report) {
  const Call call = detail::validate_forward(args);
  Storage storage;
  const ForwardArgs reference = storage.results(args);
  const detail::TwoPass<ForwardArgs> two_pass = {storage.results(args), storage.results(args),
                                                 storage.results(args)};
  reference_forward(reference);
  detail::two_pass_forward(call, two_pass);
  compare_all({{"out", args.out, reference.out, two_pass.rounded.out, two_pass.floor.out,
                tolerance_of(args.q.dtype).relative},
               {"lse", args.lse, reference.lse, two_pass.rounded.lse, two_pass.floor.lse,
                tolerance_of(DType::float32).relative}},
              Places(args, call), report);
}

void check_backward(const BackwardArgs& args, CheckReport& report) {
  const Call call = detail::validate_backward(args);
  Storage storage;
  const BackwardArgs reference = storage.results(args);
  const detail::TwoPass<BackwardArgs> two_pass = {storage.results(args), storage.results(args),
                                                  storage.results(args)};
  reference_backward(reference);
  detail::two_pass_backward(call, two_pass);
  const auto compared = [&](std::string_view name, Tensor BackwardArgs::*tensor) {
    return Compared{name,
                    args.*tensor,
                    reference.*tensor,
                    two_pass.rounded.*tensor,
                    two_pass.floor.*tensor,
                    2 * tolerance_of(args.q.dtype).relative};
  };
  compare_all(
      {compared("d_q", &BackwardArgs::d_q), compared("d_k", &BackwardArgs::d_k),
       compared("d_v", &BackwardArgs::d_v), compared("d_bias_dense", &BackwardArgs::d_bias_dense),
       compared("d_alibi_slopes", &BackwardArgs::d_alibi_slopes),
       compared("d_position_table", &BackwardArgs::d_position_table),
       compared("d_time_table", &BackwardArgs::d_time_table)},
      Places(args, call), report);
}

}  // namespace

bool CheckReport::passed() const {
  return memory_violation.empty() && std::all_of(tensors.begin(), tensors.end(),
                                                 [](const TensorCheck& t) { return t.passed(); });
}

std::string to_string(const CheckReport& report) {
  std::string text;
  for (const TensorCheck& tensor : report.tensors) {
    text += fmt::format(
        "{:<17} {}  relative error {:.2e} (allowed {:.2e})  worst element {:.2e} (allowed "
        "{:.2e})\n",
        tensor.tensor, tensor.passed() ? "ok  " : "FAIL", tensor.relative_error,
        tensor.allowed_relative_error, tensor.worst_error, tensor.allowed_worst_error);
  }
  for (const TensorCheck& tensor : report.tensors) {
    if (tensor.passed()) continue;
    text += fmt::format("first bad element: {} {}", tensor.tensor, tensor.first_bad);
    if (tensor.bad_elements > 1) text += fmt::format(" ({} bad elements)", tensor.bad_elements);
    text += '\n';
    break;
  }
  if (!report.memory_violation.empty()) {
    text += fmt::format("memory: {}\n", report.memory_violation);
  }
  return text;
}

CheckReport check(const Problem& problem, const EngineCalls& engine) {
  ProblemInstance instance(problem);
  CheckReport report;
  instance.poison();
  engine.forward(instance.forward());
  check_forward(instance.forward(), report);
  if (problem.direction == Direction::backward) {
    engine.backward(instance.backward());
    check_backward(instance.backward(), report);
  }
  report.memory_violation = instance.memory_violation();
  return report;
}

namespace {

// Runs on a copy of the instance and compares what comes back.
CheckReport check_on_device(const Problem& problem, const Execution& execution) {
  ProblemInstance instance(problem);
  if (problem.direction == Direction::backward) {
    attention_backward(instance.backward(), execution);  // says that there is none yet
  }
  DeviceInstance copy(instance, execution.device);
  instance.poison();
  copy.poison();
  attention_forward(copy.forward(), execution);
  copy.copy_back();
  CheckReport report;
  check_forward(instance.forward(), report);
  report.memory_violation = instance.memory_violation();
  return report;
}

}  // namespace

CheckReport check(const Problem& problem, const Execution& execution) {
  if (execution.device.kind != DeviceKind::cpu) return check_on_device(problem, execution);
  return check(problem, {[&](const ForwardArgs& args) { attention_forward(args, execution); },
                         [&](const BackwardArgs& args) { attention_backward(args, execution); }});
}

}  // namespace jfa
