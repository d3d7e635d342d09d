// jfa._core: include/jfa as Python sees it. Members and functions keep their C++ names; the
// package around it knows PyTorch, this module only addresses, shapes and strides.
#include "bindings.hpp"
#include "jfa/error.hpp"

namespace nb = nanobind;

namespace {

// Every error is a jfa.Error and the Python exception that its kind suggests.
void bind_errors(nb::module_& module) {
  const nb::exception<jfa::Error> base(module, "Error", PyExc_Exception);
  const auto bases = [&](PyObject* kind) { return nb::make_tuple(base, nb::handle(kind)); };
  nb::exception<jfa::InvalidArgument>(module, "InvalidArgument", bases(PyExc_ValueError));
  nb::exception<jfa::InvalidType>(module, "InvalidType", bases(PyExc_TypeError));
  nb::exception<jfa::Unsupported>(module, "Unsupported", bases(PyExc_NotImplementedError));
  nb::exception<jfa::DeviceError>(module, "DeviceError", bases(PyExc_RuntimeError));
}

}  // namespace

NB_MODULE(_core, module) {
  // Plans that PyTorch still holds when Python ends are no leak.
  nb::set_leak_warnings(false);
  module.attr("version") = JFA_VERSION;
  bind_errors(module);
  jfa::python::bind_arguments(module);
  jfa::python::bind_attention(module);
  jfa::python::bind_problem(module);
}
