// Plans and the calls. All of them run without the GIL.
#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "jfa/jfa.hpp"

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

}  // namespace

void bind_attention(nb::module_& module) {
  bind_plan(module);
  module.def("attention_forward", &attention_forward, "args"_a, "execution"_a,
             "plan"_a.none() = nb::none(), WithoutGil());
  module.def("attention_backward", &attention_backward, "args"_a, "execution"_a,
             "plan"_a.none() = nb::none(), WithoutGil());
  module.def("reference_forward", &reference_forward, "args"_a, WithoutGil());
  module.def("reference_backward", &reference_backward, "args"_a, WithoutGil());
}

}  // namespace jfa::python
