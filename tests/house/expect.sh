# Sourced by the tests of this folder: a folder of their own that goes at the end, and expectations that say what they
# saw. ctest says where things are; without it, it is the release build of this tree.
set -euo pipefail

: "${HOUSE_SOURCE:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}" "${HOUSE_BUILD:=$HOUSE_SOURCE/build}"
: "${HOUSE_COMMAND:=$HOUSE_BUILD/bin/craton}" "${HOUSE_LIBRARY:=$HOUSE_BUILD/lib/libcraton.so}" "${CC:=cc}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  printf 'FAILED: %s\n' "$1" >&2
  [[ $# -lt 2 ]] || sed 's/^/    /' <<<"$2" >&2
  failures=$((failures + 1))
}
skip() {
  echo "skip: $1"
  exit 77
}
# expect STATUS PATTERN COMMAND...: the exit status, and a line of the output (both streams) that matches.
expect() {
  local status=0 output
  output=$("${@:3}" 2>&1 </dev/null) || status=$?
  [[ $status -eq $1 ]] || fail "'${*:3}' ended with $status, not with $1" "$output"
  grep -Eq -- "$2" <<<"$output" || fail "'${*:3}' printed nothing like '$2'" "$output"
}
finish() {
  [[ $failures -eq 0 ]] || { echo "$failures expectations failed" >&2; exit 1; }
  echo "all expectations hold"
}
