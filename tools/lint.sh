#!/usr/bin/env bash
# Formatting and static analysis of what git tracks. Needs .venv (tools/setup.sh --python) and a configured build/.
#
#   tools/lint.sh          report
#   tools/lint.sh --fix    format in place, no analysis
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin
mapfile -t cpp < <(git ls-files '*.cpp' '*.hpp' 'src/*.h')
mapfile -t python < <(git ls-files '*.py')

if [ "${1:-}" = --fix ]; then
  "$bin/clang-format" -i "${cpp[@]}"
  "$bin/ruff" format "${python[@]}"
  "$bin/ruff" check --fix "${python[@]}"
  exit
fi

failed=()
run() {
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}

tidy() {
  # Only files of the configured build have compile commands.
  local files
  mapfile -t files < <(grep -o '"file": "[^"]*"' build/compile_commands.json | cut -d'"' -f4 | grep -v "/build/" |
    grep -F -f <(printf '/%s\n' "${cpp[@]}") | sort -u)
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 "$bin/clang-tidy" --quiet -p build --extra-arg=-Wno-ignored-gch
}

run clang-format "$bin/clang-format" --dry-run -Werror "${cpp[@]}"
run "ruff format" "$bin/ruff" format --check "${python[@]}"
run ruff "$bin/ruff" check "${python[@]}"
run mypy "$bin/mypy"
run clang-tidy tidy

if [ ${#failed[@]} -gt 0 ]; then
  printf 'lint: failed: %s\n' "${failed[*]}" >&2
  exit 1
fi
echo "lint: clean"
