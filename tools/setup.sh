#!/usr/bin/env bash
# Installs what is missing for building and testing: Debian packages (packages-debian.txt) and a virtual environment
# .venv with the Python packages of requirements-dev.txt. Does nothing when all is there.
#
#   tools/setup.sh            Debian packages
#   tools/setup.sh --venv     and an empty virtual environment (its pip fetches the demo's data)
#   tools/setup.sh --python   and the Python packages in it
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[2m%s\033[0m\n' "setup: $*" >&2; }
fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

install_debian_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "no Debian: install the equivalents of packages-debian.txt yourself; going on"
    return
  fi
  local wanted missing=() package
  wanted=$(sed 's/#.*//' packages-debian.txt)
  for package in $wanted; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return

  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "these Debian packages are missing and you are neither root nor have sudo; ask for:
  apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null ||
    fail "apt-get could not install: ${missing[*]}"
}

make_environment() {
  [ -x .venv/bin/python ] && return
  say "making the virtual environment .venv"
  python3 -m venv .venv || fail "python3 -m venv failed; is python3-venv installed?"
}

install_python_packages() {
  # The stamp holds the requirements that were installed; a change of either file installs anew.
  local stamp=.venv/requirements.installed
  if [ -f "$stamp" ] && cat requirements.txt requirements-dev.txt | cmp -s - "$stamp"; then
    return
  fi
  make_environment
  say "installing the Python packages of requirements-dev.txt (PyTorch is large)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt ||
    fail "pip could not install requirements-dev.txt"
  cat requirements.txt requirements-dev.txt >"$stamp"
}

install_debian_packages
case "${1:-}" in
  "") ;;
  --venv) make_environment ;;
  --python) install_python_packages ;;
  *) fail "unknown argument '$1'; use --venv, --python or nothing" ;;
esac
