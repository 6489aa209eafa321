#!/usr/bin/env bash
# benches/gpu/prepare.sh [--check | --into FOLDER] [PEERS]
#
# Builds what run.sh needs on a machine with a card and packs it into benches/gpu/bin/bin.tar.xz (git ignores it), to be
# carried there with the repository. No card is needed here. PEERS is a folder with make_models.py and sal_pipeline.py.
# Fails if more than 60 MiB would travel. With --check nothing is built: it says what is too large, and whether the packed
# programs are older than the sources. With --into nothing is packed: the programs are left in FOLDER.
set -euo pipefail
cd "$(dirname "$0")/../.."
packed=benches/gpu/bin/bin.tar.xz
most=$((60 << 20))

# What travels: files that git knows or does not ignore, and the pack.
weigh() {
    local files=0 programs=0
    files=$(git ls-files -zco --exclude-standard | xargs -0 -r stat -c %s 2>/dev/null | awk '{ all += $1 } END { print all + 0 }')
    [ ! -e $packed ] || programs=$(stat -c %s $packed)
    echo "to be carried: $((files >> 20)) MiB of files, $((programs >> 20)) MiB of programs"
    [ $((files + programs)) -gt $most ] || return 0
    echo "benches/gpu: $(((files + programs) >> 20)) MiB would travel, at most $((most >> 20)) can. The largest:"
    git ls-files -zco --exclude-standard | xargs -0 -r du -b 2>/dev/null | sort -rn | sed 5q
    return 1
}
if [ "${1-}" = --check ]; then
    status=0
    weigh || status=1
    python3 benches/gpu/programs.py check || status=1
    exit $status
fi

into=
if [ "${1-}" = --into ]; then
    into=$(realpath "$2")
    mkdir -p "$into"
    shift 2
fi
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

# The features of `cargo test --workspace`, so that nothing is compiled twice. (To `cargo test`, an example is a test.)
targets=()
for test in cuda cuda_memory cuda_sampling golden reward; do targets+=(--test $test); done
cargo test --release --workspace --no-run --bin beamgen "${targets[@]}" --message-format=json >"$new/built.json"
cargo build --release --workspace --example cuda --message-format=json >>"$new/built.json"
built=${CARGO_TARGET_DIR:-target}
program() { # PACKAGE KIND NAME: what cargo built for it
    python3 - "$new/built.json" "$@" <<'PYTHON'
import json, sys
file, package, kind, name = sys.argv[1:]
for line in open(file):
    built = json.loads(line)
    target = built.get("target", {})
    if built.get("executable") and (target["name"], target["kind"]) == (name, [kind]) and f"/{package}#" in built["package_id"]:
        print(built["executable"])
PYTHON
}
take() { # NAME PACKAGE KIND TARGET
    local path
    path=$(program "$2" "$3" "$4" | tail -1)
    [ -n "$path" ] || { echo "benches/gpu: cargo built no $3 $4 of $2" && exit 1; }
    if [ -n "$into" ]; then ln -sf "$path" "$new/$1"; else strip -o "$new/$1" "$path"; fi
}
take test-kernels crates/kernels test cuda
take test-engine crates/engine test cuda
take test-memory crates/engine test cuda_memory
take test-sampling crates/engine test cuda_sampling
take test-golden crates/engine test golden
take test-prm crates/prm test reward
take kernels crates/kernels example cuda
if [ -n "$into" ]; then ln -sf "$(realpath "$built/release/beamgen")" "$new/beamgen"; else strip -o "$new/beamgen" "$built/release/beamgen"; fi

# The kernels on the CPU, to compare with: a driver of its own, and what watches any driver's calls.
mkdir "$new/emulated" "$new/trace" "$new/stub"
emulated=$(python3 -c '
import json, sys
found = [json.loads(line) for line in open(sys.argv[1])]
print([m["out_dir"] for m in found if m["reason"] == "build-script-executed" and "/crates/emulated-cuda#" in m["package_id"]][-1])
' "$new/built.json")
cp "$emulated/libcuda.so" "$new/emulated/"
ln -s libcuda.so "$new/emulated/libcuda.so.1"
g++ -shared -x c++ /dev/null -Wl,-soname,libcuda.so.1 -o "$new/stub/libcuda.so.1"
g++ -std=c++17 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Werror -shared benches/gpu/trace.cpp -o "$new/trace/libcuda.so" \
    -Wl,-soname,libtrace.so,-z,nodelete,--no-as-needed "$new/stub/libcuda.so.1" -ldl
# The probe of tensor cores, where there is nvcc (kernels/build.sh fetches it).
nvcc=$(realpath -m "${BEAMGEN_CUDA_TOOLCHAIN:-target/cuda-13.0}")/nvidia/cu13/bin/nvcc
if [ -x "$nvcc" ]; then
    for arch in 80 90a 100 120; do
        "$nvcc" -arch=sm_$arch -cubin -O3 -std=c++17 -o "$new/probe.$arch.cubin" benches/gpu/probe.cu
    done
else
    echo "no nvcc in target/cuda-13.0: the probe of tensor cores is left out"
fi
[ $# -eq 0 ] || cp "$1"/{make_models,sal_pipeline}.py "$new/"
rm -r "$new/built.json" "$new/stub"
python3 benches/gpu/programs.py stamp "$new"
if [ -n "$into" ]; then
    cp -a "$new/." "$into/"
    exit
fi
ls -l "$new"
mkdir -p benches/gpu/bin
tar -C "$new" -cf - . | xz -9 >benches/gpu/bin/new.tar.xz
mv benches/gpu/bin/new.tar.xz $packed
weigh
