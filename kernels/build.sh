#!/usr/bin/env bash
# kernels/build.sh [--check]
#
# Compiles every kernels/*.cu to portable PTX, kernels/ptx/NAME.ptx, assembles that for sm_80 and sm_90, and writes what
# each kernel takes of a card to kernels/ptx/registers.txt. With --check it writes nothing and says what is stale.
#
# The compiler comes from PyPI, once, into target/cuda-13.0 or $BEAMGEN_CUDA_TOOLCHAIN; no GPU and no driver is needed.
# Status: 0 done or fresh, 1 stale or does not compile, 3 the compiler cannot be had.
set -euo pipefail
cd "$(dirname "$0")"
toolchain=$(realpath -m "${BEAMGEN_CUDA_TOOLCHAIN:-../target/cuda-13.0}")
cuda=$toolchain/nvidia/cu13

if [ ! -x "$cuda/bin/nvcc" ]; then
    rm -rf "$toolchain.new"
    python3 -m pip install -q --no-deps --no-cache-dir --disable-pip-version-check --root-user-action ignore --target "$toolchain.new" \
        nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 || {
        echo "kernels/build.sh: the CUDA compiler cannot be fetched from PyPI"
        exit 3
    }
    rm -rf "$toolchain"
    mv "$toolchain.new" "$toolchain"
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export cuda out

# One file. Compute capability 8.0 has all that the kernels use; the driver compiles for what it finds. The PTX says the
# version that the compiler knows, but a driver refuses what is newer than itself, so it says the oldest that fits.
compile() {
    local name=$1 version arch
    "$cuda/bin/nvcc" -gencode=arch=compute_80,code=compute_80 --ptx -O3 -std=c++17 -Werror all-warnings \
        -o "$out/$name.new" "$name.cu" || return
    for version in 7.1 7.4 7.8 8.0 8.4 9.0; do
        sed "s/^\.version .*/.version $version/" "$out/$name.new" >"$out/$name.ptx"
        "$cuda/bin/ptxas" -arch=sm_80 -o /dev/null "$out/$name.ptx" 2>"$out/$name.errors" && break
    done
    for arch in 80 90; do
        "$cuda/bin/ptxas" -v -arch=sm_$arch -o /dev/null "$out/$name.ptx" 2>"$out/$name.$arch" || {
            cat "$out/$name.$arch"
            return 1
        }
    done
}
export -f compile
# shellcheck disable=SC2012
ls -- *.cu | sed 's/\.cu$//' | xargs -P "$(nproc)" -I{} bash -c 'compile {}' || {
    echo "kernels/build.sh: a kernel does not compile"
    exit 1
}

# The report of ptxas as a table, a line for each kernel and architecture.
{
    echo "What each kernel takes, as ptxas -v says. Bytes; shared is what the kernel declares, dynamic shared memory comes on top."
    echo
    printf '%-28s %-6s %9s %6s %6s %6s\n' kernel arch registers stack spills shared
    for report in "$out"/*.80 "$out"/*.90; do
        awk '
            /Compiling entry function/ { split($0, quoted, "\x27"); kernel = quoted[2]; arch = quoted[4]; stack = spills = 0 }
            /bytes stack frame/ { stack = $1; spills = $5 + $9 }
            /Used [0-9]+ registers/ {
                match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
                shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH - 11) : 0
                printf "%-28s %-6s %9d %6d %6d %6d\n", kernel, arch, registers, stack, spills, shared
            }' "$report"
    done | LC_ALL=C sort
} >"$out/registers.txt"

if [ "${1-}" != --check ]; then
    mkdir -p ptx
    rm -f ptx/*.ptx
    cp "$out"/*.ptx "$out/registers.txt" ptx/
    exit
fi
stale=0
for name in $(ls "$out" ptx | grep -E '\.(ptx|txt)$' | sort -u); do
    if ! cmp -s "$out/$name" "ptx/$name"; then
        echo "kernels/ptx/$name is stale: run kernels/build.sh"
        stale=1
    fi
done
exit $stale
