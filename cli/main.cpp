// The command-line tool `jfa`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "commands/commands.hpp"
#include "terminal/interrupt.hpp"

namespace {

using namespace jfa::tool;

int run(int argc, char** argv) {
  CLI::App app("Jagged flash attention: check, measure and explain problems, run on event logs",
               "jfa");
  app.set_version_flag("--version", "jfa " JFA_VERSION);
  app.require_subcommand(1);
  int exit_code = kSuccess;
  add_run(app, exit_code);
  add_check(app, exit_code);
  add_bench(app, exit_code);
  add_explain(app, exit_code);
  add_info(app, exit_code);
  add_cache(app, exit_code);
  add_bundle(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSuccess : kUsage;
  } catch (const UsageError& error) {
    fmt::print(stderr, "jfa: {}\n", error.what());
    return kUsage;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "jfa: out of memory; a smaller problem, or fewer users or --batch-rows\n");
    return kFailure;
  } catch (const std::exception& error) {
    fmt::print(stderr, "jfa: {}\n", error.what());
    return kFailure;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  clean_up_when_interrupted();
  const int exit_code = run(argc, argv);
  // A full disk behind a redirection must not look like success.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "jfa: standard output: cannot be written\n");
    return exit_code == kSuccess ? kFailure : exit_code;
  }
  return exit_code;
}
