// One-line problems and their comparison with the reference.
#include "jfa/problem.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "jfa/check.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace jfa::python {
namespace {

using WithoutGil = nb::call_guard<nb::gil_scoped_release>;

void bind_notation(nb::module_& module) {
  nb::enum_<Direction>(module, "Direction")
      .value("forward", Direction::forward)
      .value("backward", Direction::backward);
  nb::class_<Problem>(module, "Problem", "A complete attention problem; str() gives its line.")
      .def_ro("direction", &Problem::direction)
      .def_ro("dtype", &Problem::dtype)
      .def_ro("dim", &Problem::dim)
      .def_ro("value_dim", &Problem::value_dim)
      .def_ro("heads", &Problem::heads)
      .def_ro("kv_heads", &Problem::kv_heads)
      .def_ro("activation", &Problem::activation)
      .def_ro("seed", &Problem::seed)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__hash__",
           [](const Problem& problem) { return std::hash<std::string>()(to_string(problem)); })
      .def("__str__", [](const Problem& problem) { return to_string(problem); })
      .def("__repr__",
           [](const Problem& problem) { return "jfa.Problem(\"" + to_string(problem) + "\")"; });
  module.def("parse_problem", &parse_problem, "line"_a);
  module.def("problem_notation", &problem_notation, "The notation: one line a key.");
}

void bind_check(nb::module_& module) {
  nb::class_<TensorCheck>(module, "TensorCheck", "How one result compares with the reference.")
      .def_ro("tensor", &TensorCheck::tensor)
      .def_ro("relative_error", &TensorCheck::relative_error, "Quotient of Frobenius norms.")
      .def_ro("allowed_relative_error", &TensorCheck::allowed_relative_error)
      .def_ro("worst_error", &TensorCheck::worst_error, "Largest absolute difference.")
      .def_ro("allowed_worst_error", &TensorCheck::allowed_worst_error)
      .def_ro("bad_elements", &TensorCheck::bad_elements)
      .def_ro("first_bad", &TensorCheck::first_bad, "Coordinate and both values; empty: none.")
      .def_prop_ro("passed", &TensorCheck::passed);
  nb::class_<CheckReport>(module, "CheckReport", "str() is for people; true when all passed.")
      .def_ro("tensors", &CheckReport::tensors)
      .def_ro("memory_violation", &CheckReport::memory_violation,
              "What the engine overwrote; empty: nothing.")
      .def_prop_ro("passed", &CheckReport::passed)
      .def("__bool__", &CheckReport::passed)
      .def("__str__", [](const CheckReport& report) { return to_string(report); });
  module.def("check", nb::overload_cast<const Problem&, const Execution&>(&check), "problem"_a,
             "execution"_a, WithoutGil());
}

}  // namespace

void bind_problem(nb::module_& module) {
  bind_notation(module);
  bind_check(module);
}

}  // namespace jfa::python
