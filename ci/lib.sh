# What the steps share. Each step starts with `. "$(dirname "$0")/lib.sh"`, which also changes to the root of the project.
#
# The status of a step: 0 done; 3 done except for what could not be fetched (`lacks`); anything else failed.
# With BEAMGEN_TEST_STRICT=0 a step that lacks something ends with 0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p target
export CARGO_TERM_COLOR=never BEAMGEN_TEST_STRICT=${BEAMGEN_TEST_STRICT:-1}

# `lacks NAME` notes what could not be fetched; the step continues without it.
missing=
lacks() {
    missing="${missing:+$missing, }$1"
    echo "== missing: $1"
    [ -z "${BEAMGEN_CI_MISSING:-}" ] || echo "$1" >>"$BEAMGEN_CI_MISSING"
}
trap 'status=$?; [ $status != 0 ] || [ -z "$missing" ] || [ "$BEAMGEN_TEST_STRICT" != 1 ] || exit 3' EXIT

# `retry COMMAND...` repeats a fetch until it succeeds, after 10, 20, 40, 80 and 150 seconds. The pauses of all steps of a run
# share five minutes, which .ci/run keeps in a file.
retry() {
    local pause=10 left file=${BEAMGEN_CI_PATIENCE:-}
    until "$@"; do
        left=$([ -z "$file" ] && echo $((80 - pause)) || cat "$file")
        [ "$left" -gt 0 ] || return 1
        [ "$pause" -le "$left" ] || pause=$left
        echo "== again in $pause s: $*" >&2
        sleep "$pause"
        [ -z "$file" ] || echo $((left - pause)) >"$file"
        pause=$((pause * 2))
    done
}

# `debian PACKAGE...` installs packages, if this is Debian and the user is root.
debian() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && retry install_debian "$@"; }
install_debian() { { apt-get update -qq && apt-get install -y -qq "$@"; } >/dev/null 2>&1; }

# `venv FOLDER REQUIREMENT...` makes a Python environment with these packages.
venv() {
    [ -x "$1/bin/python" ] || python3 -m venv "$1" || return
    retry "$1/bin/pip" install -q --disable-pip-version-check "${@:2}"
}

# `release` builds the program, unless a build of this source with more features is there already.
release() { [ -x target/release/beamgen ] && [ "${CI:-}" = true ] || cargo build --release; }
