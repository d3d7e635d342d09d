// jfa run: attention over the user histories of an interaction log.
#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "commands/commands.hpp"
#include "events/event_log.hpp"
#include "events/histories.hpp"
#include "jfa/error.hpp"
#include "jfa/problem.hpp"
#include "measure/timer.hpp"
#include "report/output_file.hpp"
#include "report/run_report.hpp"
#include "run/runner.hpp"
#include "terminal/progress.hpp"
#include "terminal/style.hpp"

namespace jfa::tool {
namespace {

struct Options {
  std::string events;
  EventLogOptions log;
  bool no_quotes = false;
  std::int64_t max_history = 0;
  std::int64_t max_users = 0;
  std::string dtype = "fp32";
  std::string mask = "causal";
  std::string activation = "softmax";
  std::int64_t kv_heads = 0;
  std::int64_t value_dim = 0;
  std::string html;
  RunSettings settings;
  bool no_padded = false;
  CommonOptions common;
};

// Types, masks and activations are written as in one-line problems, so that parser reads them.
Problem parse_attention(const Options& options) {
  const AttentionShape& shape = options.settings.shape;
  std::string line = fmt::format("bwd {} d={} h={} act={} mask={} q=1", options.dtype, shape.dim,
                                 shape.heads, options.activation, options.mask);
  if (options.value_dim > 0) line += fmt::format(" dv={}", options.value_dim);
  if (options.kv_heads > 0) line += fmt::format(" hkv={}", options.kv_heads);
  try {
    return parse_problem(line);
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

// One value for all users: the log says nothing about single ones.
SequenceParameter same_for_all(std::string_view name, const SequenceValues& values) {
  if (values.size() != 1) {
    throw UsageError(
        fmt::format("--mask: {} has {} values; give one for all users", name, values.size()));
  }
  return {values.front(), {}};
}

Mask mask_of(const MaskSpec& spec) {
  if (spec.kind == MaskKind::intervals) {
    throw UsageError(
        "--mask intervals: not for logs; use full, causal, window, prefix_local, "
        "blocks or hstu");
  }
  Mask mask;
  mask.kind = spec.kind;
  mask.alignment = spec.alignment;
  mask.left = same_for_all("left", spec.left);
  mask.right = same_for_all("right", spec.right);
  mask.hstu_causal = spec.hstu_causal;
  mask.contextual = same_for_all("contextual", spec.contextual);
  mask.targets = same_for_all("targets", spec.targets);
  mask.target_group = same_for_all("target group", spec.target_group);
  mask.max_attention_length = same_for_all("attention length", spec.max_attention_length);
  mask.min_full_attention = same_for_all("full attention", spec.min_full_attention);
  mask.prefix = same_for_all("prefix", spec.prefix);
  mask.local = same_for_all("local", spec.local);
  mask.block = same_for_all("block", spec.block);
  return mask;
}

AttentionShape shape_of(const Options& options) {
  const Problem problem = parse_attention(options);
  AttentionShape shape;
  shape.dtype = problem.dtype;
  shape.heads = problem.heads;
  shape.kv_heads = problem.kv_heads;
  shape.dim = problem.dim;
  shape.value_dim = problem.value_dim;
  shape.activation = problem.activation;
  shape.mask = mask_of(problem.mask);
  return shape;
}

std::string describe(const Options& options, const AttentionShape& shape) {
  std::string heads = fmt::format("{} heads of {}", shape.heads, shape.dim);
  if (shape.kv_heads != shape.heads) heads += fmt::format(", {} key heads", shape.kv_heads);
  if (shape.value_dim != shape.dim) heads += fmt::format(", values of {}", shape.value_dim);
  return fmt::format("{}, {}, mask {}, {}", name_of(shape.dtype), heads, options.mask,
                     options.activation);
}

EventLog read_log(const Options& options) {
  EventLogOptions log = options.log;
  log.quotes = !options.no_quotes;
  log.seed = options.settings.seed;
  log.memory_bytes = available_memory();
  if (log.delimiter == "tab" || log.delimiter == "\\t") log.delimiter = "\t";
  std::error_code ignored;
  const auto size = std::filesystem::file_size(options.events, ignored);
  Progress progress("reading " + std::filesystem::path(options.events).filename().string(),
                    ignored ? 0 : static_cast<double>(size));
  return read_event_log_file(options.events, log, [&](std::int64_t bytes) {
    progress.update(static_cast<double>(bytes));
  });
}

int run(const Options& options) {
  std::optional<OutputFile> page;
  if (!options.html.empty()) page.emplace("--html", options.html);
  RunReport report;
  report.settings = options.settings;
  report.settings.shape = shape_of(options);
  report.settings.execution = options.common.execution();
  report.settings.padded = !options.no_padded;
  if (options.settings.time_limit == 0) {
    report.settings.time_limit = std::numeric_limits<double>::infinity();
  }

  EventLog log;
  report.read_seconds = seconds_of([&] { log = read_log(options); });
  if (log.events.empty()) {
    throw EventLogError(fmt::format("{}: no events", options.events));
  }
  Histories histories = build_histories(log, options.max_history);
  if (options.max_users > 0) {
    histories = sample_users(histories, options.max_users, options.settings.seed);
  }
  report.source = std::filesystem::path(options.events).filename().string();
  report.log_events = static_cast<std::int64_t>(log.events.size());
  report.log_users = log.users;
  report.log_items = log.items;
  report.rows_skipped = log.rows_skipped;
  report.first_skipped_reason = log.first_skipped_reason;
  report.longest_kept = options.max_history;
  report.user_share = options.log.user_share;
  report.processor = processor_name();
  report.version = JFA_VERSION;
  report.attention = describe(options, report.settings.shape);
  log = {};

  if (report.settings.shape.activation != Activation::softmax) {
    const LengthStatistics lengths = length_statistics(lengths_of(histories));
    report.settings.shape.out_scale = 1.0 / static_cast<double>(lengths.longest);
  }
  const MachinePeak peak = measure_peak(options.common.threads);
  report.settings.memory_bytes = available_memory();
  report.result = run_histories(std::move(histories), report.settings, peak);
  if (page) page->finish(html_report(report));
  if (options.common.json) {
    fmt::print("{}\n", json_report(report));
  } else {
    print_report(report);
    if (page) fmt::print("\nreport: {}\n", options.html);
  }
  return within_accuracy(report) ? kSuccess : kFailure;
}

void add_log_options(CLI::App& command, Options& options) {
  command.add_option("--events", options.events, "The log: CSV, TSV or the like")
      ->required()
      ->type_name("FILE");
  command.add_option("--user", options.log.user_column, "User column: name, or number from 1")
      ->required()
      ->type_name("COL");
  command.add_option("--time", options.log.time_column, "Time column")
      ->required()
      ->type_name("COL");
  command.add_option("--item", options.log.item_column, "Item column")->type_name("COL");
  command.add_option("--delimiter", options.log.delimiter,
                     "One character, '::' or 'tab'; seen in the first line if left out");
  command.add_flag("--no-quotes", options.no_quotes, "Quotes are ordinary characters");
  command.add_flag("--skip-bad-rows", options.log.skip_bad_rows,
                   "Count rows that cannot be read instead of stopping");
  command.add_option("--max-history", options.max_history, "Keep a user's newest N events; 0: all")
      ->check(whole_number(0));
  command
      .add_option("--user-share", options.log.user_share,
                  "Read about this share of the users: for logs larger than memory")
      ->capture_default_str()
      ->check(number(1e-9, 1));
  command.add_option("--max-users", options.max_users, "A random choice of N users; 0: all")
      ->check(whole_number(0));
}

void add_attention_options(CLI::App& command, Options& options) {
  AttentionShape& shape = options.settings.shape;
  command.add_option("--heads", shape.heads, "Query heads")
      ->capture_default_str()
      ->check(whole_number(1));
  command.add_option("--kv-heads", options.kv_heads, "Key and value heads; default: as --heads")
      ->check(whole_number(1));
  command.add_option("--dim", shape.dim, "Head dimension")
      ->capture_default_str()
      ->check(whole_number(1));
  command.add_option("--value-dim", options.value_dim, "Head dimension of v; default: as --dim")
      ->check(whole_number(1));
  command.add_option("--dtype", options.dtype, "fp32, bf16 or fp16")->capture_default_str();
  command.add_option("--mask", options.mask, "As in one-line problems")->capture_default_str();
  command.add_option("--act", options.activation, "softmax, silu, gelu, …")->capture_default_str();
  command.add_option("--seed", options.settings.seed, "Of embeddings and samples")
      ->capture_default_str()
      ->check(seed_number());
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "run",
      "Attention over the user histories of an interaction log, against padding and the "
      "reference");
  add_log_options(*command, *options);
  add_attention_options(*command, *options);
  command->add_option("--batch-rows", options->settings.batch_rows, "Events a batch, about")
      ->capture_default_str()
      ->check(whole_number(1));
  command
      ->add_option("--time-limit", options->settings.time_limit,
                   "Seconds to measure each layout, about; the rest of the users is extrapolated "
                   "from a random choice; 0: measure all")
      ->capture_default_str()
      ->check(number(0, 1e9));
  command->add_flag("--no-padded", options->no_padded, "Leave the padded comparison out");
  command->add_option("--html", options->html, "Write the report as one HTML page")
      ->type_name("FILE");
  options->common.add_to(*command);
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace jfa::tool
