// Tensors and the structures of jfa/attention.hpp.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "jfa/jfa.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace jfa::python {
namespace {

Tensor make_tensor(std::uintptr_t data, DType dtype, const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& strides) {
  Tensor tensor;
  if (shape.size() != strides.size() || shape.empty() || shape.size() > tensor.shape.size()) {
    throw InvalidArgument("Tensor: " + std::to_string(shape.size()) + " extents and " +
                          std::to_string(strides.size()) +
                          " strides; a tensor has 1 to 4 dimensions and one stride for each");
  }
  tensor.data = pointer(data);
  tensor.dtype = dtype;
  tensor.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape.begin());
  std::copy(strides.begin(), strides.end(), tensor.strides.begin());
  return tensor;
}

void bind_tensor(nb::module_& module) {
  nb::enum_<DType>(module, "DType")
      .value("float32", DType::float32)
      .value("float16", DType::float16)
      .value("bfloat16", DType::bfloat16)
      .value("float64", DType::float64)
      .value("int32", DType::int32)
      .value("int64", DType::int64);
  nb::class_<Tensor>(module, "Tensor",
                     "A view of memory that the caller keeps alive: address, type, shape, strides "
                     "in elements. Tensor() is absent.")
      .def(nb::init<>())
      .def(
          "__init__",
          [](Tensor* self, std::uintptr_t data, DType dtype, const std::vector<std::int64_t>& shape,
             const std::vector<std::int64_t>& strides) {
            new (self) Tensor(make_tensor(data, dtype, shape, strides));
          },
          "data"_a, "dtype"_a, "shape"_a, "strides"_a);
  module.def("offsets_from_lengths", &offsets_from_lengths, "lengths"_a, "offsets"_a,
             nb::call_guard<nb::gil_scoped_release>());
}

void bind_sequences(nb::module_& module) {
  nb::enum_<Layout>(module, "Layout")
      .value("jagged", Layout::jagged)
      .value("dense", Layout::dense)
      .value("broadcast", Layout::broadcast);
  nb::class_<Sequences>(module, "Sequences")
      .def(nb::init<>())
      .def_rw("layout", &Sequences::layout)
      .def_rw("offsets", &Sequences::offsets)
      .def_rw("used_lengths", &Sequences::used_lengths);
  nb::class_<SequenceParameter>(module, "SequenceParameter")
      .def(nb::init<>())
      .def_rw("value", &SequenceParameter::value)
      .def_rw("per_sequence", &SequenceParameter::per_sequence);
}

void bind_mask(nb::module_& module) {
  nb::enum_<MaskKind>(module, "MaskKind")
      .value("full", MaskKind::full)
      .value("causal", MaskKind::causal)
      .value("window", MaskKind::window)
      .value("hstu", MaskKind::hstu)
      .value("prefix_local", MaskKind::prefix_local)
      .value("blocks", MaskKind::blocks)
      .value("intervals", MaskKind::intervals);
  nb::enum_<Alignment>(module, "Alignment")
      .value("bottom_right", Alignment::bottom_right)
      .value("top_left", Alignment::top_left);
  nb::class_<Mask>(module, "Mask")
      .def(nb::init<>())
      .def_rw("kind", &Mask::kind)
      .def_rw("alignment", &Mask::alignment)
      .def_rw("left", &Mask::left)
      .def_rw("right", &Mask::right)
      .def_rw("hstu_causal", &Mask::hstu_causal)
      .def_rw("contextual", &Mask::contextual)
      .def_rw("targets", &Mask::targets)
      .def_rw("target_group", &Mask::target_group)
      .def_rw("max_attention_length", &Mask::max_attention_length)
      .def_rw("min_full_attention", &Mask::min_full_attention)
      .def_rw("prefix", &Mask::prefix)
      .def_rw("local", &Mask::local)
      .def_rw("block", &Mask::block)
      .def_rw("intervals", &Mask::intervals);
}

void bind_bias(nb::module_& module) {
  nb::class_<Bias>(module, "Bias")
      .def(nb::init<>())
      .def_rw("dense", &Bias::dense)
      .def_rw("alibi_slopes", &Bias::alibi_slopes)
      .def_rw("position_table", &Bias::position_table)
      .def_rw("time_table", &Bias::time_table)
      .def_rw("q_timestamps", &Bias::q_timestamps)
      .def_rw("kv_timestamps", &Bias::kv_timestamps)
      .def_rw("time_scale", &Bias::time_scale);
}

void bind_attention_arguments(nb::module_& module) {
  nb::enum_<Activation>(module, "Activation")
      .value("softmax", Activation::softmax)
      .value("silu", Activation::silu)
      .value("gelu", Activation::gelu)
      .value("gelu_tanh", Activation::gelu_tanh)
      .value("relu", Activation::relu)
      .value("relu2", Activation::relu2)
      .value("leaky_relu", Activation::leaky_relu)
      .value("hardswish", Activation::hardswish)
      .value("identity", Activation::identity);
  nb::enum_<OutScale>(module, "OutScale")
      .value("uniform", OutScale::uniform)
      .value("per_sequence", OutScale::per_sequence)
      .value("per_token", OutScale::per_token);
  nb::class_<AttentionArgs>(module, "AttentionArgs")
      .def(nb::init<>())
      .def_rw("q", &AttentionArgs::q)
      .def_rw("k", &AttentionArgs::k)
      .def_rw("v", &AttentionArgs::v)
      .def_rw("q_sequences", &AttentionArgs::q_sequences)
      .def_rw("kv_sequences", &AttentionArgs::kv_sequences)
      .def_rw("kv_map", &AttentionArgs::kv_map)
      .def_rw("batch", &AttentionArgs::batch)
      .def_rw("activation", &AttentionArgs::activation)
      .def_rw("leaky_slope", &AttentionArgs::leaky_slope)
      .def_rw("scale", &AttentionArgs::scale, nb::arg().none())
      .def_rw("out_scale_kind", &AttentionArgs::out_scale_kind)
      .def_rw("out_scale", &AttentionArgs::out_scale)
      .def_rw("out_scales", &AttentionArgs::out_scales)
      .def_rw("mask", &AttentionArgs::mask)
      .def_rw("bias", &AttentionArgs::bias);
  nb::class_<ForwardArgs, AttentionArgs>(module, "ForwardArgs")
      .def(nb::init<>())
      .def_rw("out", &ForwardArgs::out)
      .def_rw("lse", &ForwardArgs::lse);
  nb::class_<BackwardArgs, AttentionArgs>(module, "BackwardArgs")
      .def(nb::init<>())
      .def_rw("out", &BackwardArgs::out)
      .def_rw("lse", &BackwardArgs::lse)
      .def_rw("d_out", &BackwardArgs::d_out)
      .def_rw("d_q", &BackwardArgs::d_q)
      .def_rw("d_k", &BackwardArgs::d_k)
      .def_rw("d_v", &BackwardArgs::d_v)
      .def_rw("d_bias_dense", &BackwardArgs::d_bias_dense)
      .def_rw("d_alibi_slopes", &BackwardArgs::d_alibi_slopes)
      .def_rw("d_position_table", &BackwardArgs::d_position_table)
      .def_rw("d_time_table", &BackwardArgs::d_time_table)
      .def_rw("deterministic", &BackwardArgs::deterministic);
}

void bind_execution(nb::module_& module) {
  nb::class_<Device>(module, "Device").def("__str__", [](const Device& device) {
    return to_string(device);
  });
  module.def("parse_device", &parse_device, "text"_a);
  nb::class_<Execution>(module, "Execution")
      .def(nb::init<>())
      .def_rw("device", &Execution::device)
      .def_rw("threads", &Execution::threads)
      .def(
          "use_openmp", [](Execution& execution) { execution.run_on_threads = openmp_threads(); },
          "Run on the OpenMP threads of this process, which are PyTorch's, if there are any.")
      .def_rw("strict_isolation", &Execution::strict_isolation)
      .def_rw("sm_margin", &Execution::sm_margin)
      .def_prop_rw(
          "stream",
          [](const Execution& execution) {
            return reinterpret_cast<std::uintptr_t>(execution.stream);
          },
          [](Execution& execution, std::uintptr_t stream) { execution.stream = pointer(stream); })
      .def(
          "use_workspace",
          [](Execution& execution, std::uintptr_t memory, std::size_t bytes) {
            execution.workspace = pointer(memory);
            execution.workspace_bytes = bytes;
          },
          "memory"_a, "bytes"_a, "Scratch for the next call in place of memory of the library.")
      .def(
          "use_plan_memory",
          [](Execution& execution, std::uintptr_t memory, std::size_t bytes) {
            execution.plan_memory = pointer(memory);
            execution.plan_memory_bytes = bytes;
          },
          "memory"_a, "bytes"_a, "Where make_plan puts a plan.");
}

}  // namespace

void bind_arguments(nb::module_& module) {
  bind_tensor(module);
  bind_sequences(module);
  bind_mask(module);
  bind_bias(module);
  bind_attention_arguments(module);
  bind_execution(module);
}

}  // namespace jfa::python
