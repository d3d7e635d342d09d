// Plans and the calls. All of them run without the GIL.
#include <nanobind/stl/string.h>

#include <cstdint>
#include <utility>

#include "bindings.hpp"
#include "jfa/jfa.hpp"
#include "jfa/runtime.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace jfa::python {
namespace {

using WithoutGil = nb::call_guard<nb::gil_scoped_release>;

void bind_plan(nb::module_& module) {
  nb::class_<PlanStatistics>(module, "PlanStatistics",
                             "What a plan found and saves; str() is for people.")
      .def_ro("batch", &PlanStatistics::batch)
      .def_ro("empty_sequences", &PlanStatistics::empty_sequences,
              "Sequences without query rows or without key rows.")
      .def_ro("query_rows", &PlanStatistics::query_rows, "Valid rows over all sequences.")
      .def_ro("key_rows", &PlanStatistics::key_rows, "Valid rows over all sequences.")
      .def_ro("tiles", &PlanStatistics::tiles, "Tiles of query rows, one head group.")
      .def_ro("packed_tiles", &PlanStatistics::packed_tiles,
              "Tiles that hold more than one sequence.")
      .def_ro("tile_rows", &PlanStatistics::tile_rows, "Rows of a full tile.")
      .def_ro("row_fill", &PlanStatistics::row_fill, "Valid rows / (tiles · tile_rows).")
      .def_ro("visible_pairs", &PlanStatistics::visible_pairs,
              "(query, key) pairs that the mask lets through, one head.")
      .def_ro("computed_pairs", &PlanStatistics::computed_pairs,
              "Pairs in key blocks that are not skipped, one head.")
      .def_ro("padded_pairs", &PlanStatistics::padded_pairs,
              "Batch · longest q · longest kv: what a padded kernel computes, one head.")
      .def_ro("largest_tile_share", &PlanStatistics::largest_tile_share,
              "Work of the largest tile / all work.")
      .def("__str__", [](const PlanStatistics& statistics) { return to_string(statistics); });
  nb::class_<Plan>(module, "Plan", nb::is_weak_referenceable())
      .def("statistics", &Plan::statistics);
  module.def("make_plan", nb::overload_cast<const AttentionArgs&, const Execution&>(&make_plan),
             "args"_a, "execution"_a, WithoutGil());
}

// A call that differs from one seen before in addresses alone; it goes through the same checks.
class PreparedForward {
 public:
  PreparedForward(ForwardArgs args, Execution execution, Plan plan)
      : args_(std::move(args)), execution_(std::move(execution)), plan_(std::move(plan)) {}

  void run(std::uintptr_t q, std::uintptr_t k, std::uintptr_t v, std::uintptr_t q_offsets,
           std::uintptr_t kv_offsets, std::uintptr_t out, std::uintptr_t lse, std::uintptr_t stream,
           std::uintptr_t workspace, std::size_t workspace_bytes) const {
    ForwardArgs args = args_;
    args.q.data = pointer(q);
    args.k.data = pointer(k);
    args.v.data = pointer(v);
    if (args.q_sequences.offsets.present()) args.q_sequences.offsets.data = pointer(q_offsets);
    if (args.kv_sequences.offsets.present()) args.kv_sequences.offsets.data = pointer(kv_offsets);
    args.out.data = pointer(out);
    if (args.lse.present()) args.lse.data = pointer(lse);
    Execution execution = execution_;
    execution.stream = pointer(stream);
    execution.workspace = pointer(workspace);
    execution.workspace_bytes = workspace_bytes;
    attention_forward(args, execution, &plan_);
  }

 private:
  ForwardArgs args_;
  Execution execution_;
  Plan plan_;
};

void bind_devices(nb::module_& module) {
  nb::class_<PreparedForward>(module, "PreparedForward")
      .def(nb::init<ForwardArgs, Execution, Plan>(), "args"_a, "execution"_a, "plan"_a)
      .def("run", &PreparedForward::run, WithoutGil());
  module.def("plan_bytes", &plan_bytes, "args"_a, "execution"_a);
  module.def(
      "forward_workspace_bytes",
      [](const ForwardArgs& args, const Execution& execution, const Plan* plan) {
        return forward_workspace_bytes(args, execution, plan != nullptr ? *plan : Plan());
      },
      "args"_a, "execution"_a, "plan"_a.none() = nb::none());
  module.def(
      "register_host",
      [](const Device& device, std::uintptr_t memory, std::size_t bytes) {
        runtime::open(device).register_host(pointer(memory), bytes);
      },
      "device"_a, "memory"_a, "bytes"_a, "Lets a PTX machine reach memory of this process.");
  module.def(
      "unregister_host",
      [](const Device& device, std::uintptr_t memory) {
        runtime::open(device).unregister_host(pointer(memory));
      },
      "device"_a, "memory"_a);
}

}  // namespace

void bind_attention(nb::module_& module) {
  bind_plan(module);
  bind_devices(module);
  module.def("attention_forward", &attention_forward, "args"_a, "execution"_a,
             "plan"_a.none() = nb::none(), WithoutGil());
  module.def("attention_backward", &attention_backward, "args"_a, "execution"_a,
             "plan"_a.none() = nb::none(), WithoutGil());
  module.def("reference_forward", &reference_forward, "args"_a, WithoutGil());
  module.def("reference_backward", &reference_backward, "args"_a, WithoutGil());
}

}  // namespace jfa::python
