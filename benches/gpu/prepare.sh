#!/usr/bin/env bash
# benches/gpu/prepare.sh [FOLDER_WITH_PEERS_SCRIPTS]
#
# Builds what run.sh needs on a machine with a card and packs it into benches/gpu/bin/bin.tar.xz (git ignores it), to be carried
# there with the repository. No CUDA is needed here.
set -euo pipefail
cd "$(dirname "$0")/../.."
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
cargo build --release
cp target/release/beamgen "$new/"
# A package's test program, by the name that cargo gives it.
tests() {
    cargo test --release --no-run --message-format=json -p "$1" --test "$2" |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1
}
cp "$(tests beamgen-kernels cuda)" "$new/test-kernels"
cp "$(tests beamgen-engine cuda)" "$new/test-engine"
cp "$(tests beamgen-engine cuda_sampling)" "$new/test-sampling"
cp "$(tests beamgen-engine golden)" "$new/test-golden"
cp "$(tests beamgen-prm reward)" "$new/test-prm"
cargo build --release -p beamgen-kernels --example cuda
cp target/release/examples/cuda "$new/kernels"
# Fixtures are where the tests were built.
pwd >"$new/built-in"
[ $# -eq 0 ] || cp "$1"/{make_models,sal_pipeline}.py "$new/"
strip "$new"/beamgen "$new"/kernels "$new"/test-*
ls -l "$new"
mkdir -p benches/gpu/bin
tar -C "$new" -cf - . | xz -T0 >benches/gpu/bin/new.tar.xz
mv benches/gpu/bin/new.tar.xz benches/gpu/bin/bin.tar.xz
tracked=$(git ls-files -z | du -cb --files0-from=- | tail -1 | cut -f1)
packed=$(stat -c %s benches/gpu/bin/bin.tar.xz)
echo "to be carried: $((tracked / 1048576)) MiB of files that git knows, $((packed / 1048576)) MiB of programs"
