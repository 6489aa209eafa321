#!/usr/bin/env bash
# benches/gpu/prepare.sh [FOLDER_WITH_PEERS_SCRIPTS]
#
# Builds what run.sh needs on a machine with a card and puts it into benches/gpu/bin (git ignores it), to be carried there
# with the repository. No CUDA is needed here.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=benches/gpu/bin
rm -rf "$bin"
mkdir -p "$bin"
cargo build --release
cp target/release/beamgen "$bin/"
# The newest test programs, by the names that cargo gives them.
tests() {
    cargo test --release --no-run --message-format=json -p "$1" --test "$2" |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1
}
cp "$(tests beamgen-kernels cuda)" "$bin/test-kernels"
cp "$(tests beamgen-engine cuda)" "$bin/test-engine"
cp "$(tests beamgen-engine golden)" "$bin/test-golden"
cp "$(tests beamgen-prm reward)" "$bin/test-prm"
cargo build --release -p beamgen-kernels --example cuda
cp target/release/examples/cuda "$bin/kernels"
# Fixtures are where the tests were built.
pwd >"$bin/built-in"
[ $# -eq 0 ] || cp "$1"/{make_models,sal_pipeline}.py "$bin/"
strip "$bin"/beamgen "$bin"/kernels "$bin"/test-*
du -ch "$bin"/* | sort -h
