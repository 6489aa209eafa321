#!/usr/bin/env bash
# kernels/build.sh [--check]
#
# Compiles every kernels/*.cu to portable PTX, kernels/ptx/NAME.ptx, and that to machine code for some architectures; packs
# both for the program as kernels/code/ptx.gz and sm_ARCH.gz, and writes what each kernel takes of a card to
# kernels/ptx/registers.txt. With --check it writes nothing and says what is stale.
#
# The compilers come from PyPI, once, into target/cuda-13.0 or $BEAMGEN_CUDA_TOOLCHAIN; no GPU and no driver is needed.
# Status: 0 done or fresh, 1 stale or does not compile, 3 the compiler cannot be had.
set -euo pipefail
cd "$(dirname "$0")"
toolchain=$(realpath -m "${BEAMGEN_CUDA_TOOLCHAIN:-../target/cuda-13.0}")
cuda=$toolchain/nvidia/cu13
# Of CUDA 12: its machine code is for drivers of 12.0 and later; that of 13 has a newer ELF format (docs/internals/decisions.md).
ptxas=$toolchain/nvidia/cuda_nvcc/bin/ptxas
archs="80 90 100 120"

if [ ! -x "$cuda/bin/nvcc" ] || [ ! -x "$ptxas" ]; then
    rm -rf "$toolchain.new"
    python3 -m pip install -q --no-deps --no-cache-dir --disable-pip-version-check --root-user-action ignore --target "$toolchain.new" \
        nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 \
        nvidia-cuda-nvcc-cu12==12.9.86 || {
        echo "kernels/build.sh: the CUDA compilers cannot be fetched from PyPI"
        exit 3
    }
    rm -rf "$toolchain"
    mv "$toolchain.new" "$toolchain"
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export cuda ptxas archs out

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
    for arch in $archs; do
        "$ptxas" -v -arch="sm_$arch" -o "$out/$name.sm_$arch" "$out/$name.ptx" 2>"$out/$name.report_$arch" || {
            cat "$out/$name.report_$arch"
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

# Modules as the program reads them: a line with name and bytes for each, an empty line, and one after the other.
pack() {
    local file
    {
        for file; do
            echo "$(basename "${file%.*}") $(stat -c %s "$file")"
        done
        echo
        cat "$@"
    } | gzip -9n
}
pack "$out"/*.ptx >"$out/ptx.gz"
for arch in $archs; do
    pack "$out"/*.sm_"$arch" >"$out/sm_$arch.gz"
done

# The reports of ptxas as a table, a line for each kernel and architecture.
{
    echo "What each kernel takes, as ptxas -v says. Bytes; shared is what the kernel declares, dynamic shared memory comes on top."
    echo
    printf '%-28s %-6s %9s %6s %6s %6s\n' kernel arch registers stack spills shared
    for report in "$out"/*.report_*; do
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
    mkdir -p ptx code
    rm -f ptx/*.ptx code/*.gz
    cp "$out"/*.ptx "$out/registers.txt" ptx/
    cp "$out"/*.gz code/
    exit
fi
stale=0
# Not the packed bytes, which another gzip may choose otherwise.
for name in $(ls "$out" ptx code | grep -E '\.(ptx|txt|gz)$' | sort -u); do
    case $name in
        *.gz) folder=code && same() { cmp -s <(gzip -dc "$1") <(gzip -dc "$2"); } ;;
        *) folder=ptx && same() { cmp -s "$1" "$2"; } ;;
    esac
    if ! same "$out/$name" "$folder/$name"; then
        echo "kernels/$folder/$name is stale: run kernels/build.sh"
        stale=1
    fi
done
exit $stale
