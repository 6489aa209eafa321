# Functions for all steps. A step begins with `. "$(dirname "$0")/lib.sh"`, which also changes to
# the project's root.
#
# The exit status of a step: 0 is success, 3 is success without what could not be downloaded (see
# `lacks`), and any other number is failure. With BEAMGEN_TEST_STRICT=0, status 3 becomes 0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p target
export CARGO_TERM_COLOR=never BEAMGEN_TEST_STRICT=${BEAMGEN_TEST_STRICT:-1}
# Files that only help to debug or to build again fill several GB of the disk.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0

# `lacks NAME` records that NAME could not be downloaded; the step continues.
missing=
lacks() {
    missing="${missing:+$missing, }$1"
    echo "== missing: $1"
    [ -z "${BEAMGEN_CI_MISSING:-}" ] || echo "$1" >>"$BEAMGEN_CI_MISSING"
}
trap 'status=$?; [ $status != 0 ] || [ -z "$missing" ] || [ "$BEAMGEN_TEST_STRICT" != 1 ] || exit 3' EXIT

# `retry COMMAND...` repeats a download until it succeeds, with pauses of 10, 20, 40, 80 and 150
# seconds. All steps of a run together pause for at most five minutes; .ci/run keeps the remaining
# time in a file.
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

# `debian PACKAGE...` installs packages; fails if the system is not Debian or the user is not root.
debian() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && retry install_debian "$@"; }
install_debian() { { apt-get update -qq && apt-get install -y -qq "$@"; } >/dev/null 2>&1; }

# `venv FOLDER REQUIREMENT...` creates a Python environment and installs the requirements.
venv() {
    [ -x "$1/bin/python" ] || python3 -m venv "$1" || return
    retry "$1/bin/pip" install -q --disable-pip-version-check "${@:2}"
}

# `release` builds the program. In CI an existing build is used, which may have more features.
release() { [ -x target/release/beamgen ] && [ "${CI:-}" = true ] || cargo build --release; }
