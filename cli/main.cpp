// The command-line tool `jfa`.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app("Jagged flash attention: check, measure and explain problems, run on event logs",
               "jfa");
  app.set_version_flag("--version", "jfa 0.1.0");
  app.require_subcommand(1);
  app.add_subcommand("info", "Versions and devices")->callback([] { fmt::print("jfa 0.1.0\n"); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return 0;
}
