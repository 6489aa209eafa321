#!/usr/bin/env bash
# benches/gpu/run.sh [PART...]
#
# On a machine with a driver and nothing else (Python; with torch and transformers for the last part), after prepare.sh was
# run elsewhere. Builds nothing. The parts are parity, kernels, decode and search, by default all; if parity fails, the
# others are not run. Everything it prints is also in $OUT/gpu-PART.txt. From the environment it takes PROBLEMS that both devices
# solve for parity (200), N ("16 64 256") and PRM ("1.5b 7b") of the search.
set -uo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- parity kernels decode search
for part in "$@"; do
    [[ $part =~ ^(parity|kernels|decode|search)$ ]] || { echo "$part: no such part" >&2 && exit 2; }
done
out=${OUT:-/tmp/beamgen-gpu}
mkdir -p "$out"
exec > >(tee "$out/gpu-$(IFS=-; echo "$*").txt") 2>&1
packed=benches/gpu/bin/bin.tar.xz
[ -e $packed ] || { echo "$packed is not there: run prepare.sh first, where there is a compiler" && exit 2; }
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
tar -C "$bin" -xf $packed || { echo "$packed cannot be unpacked" && exit 2; }
export BIN=$bin
beamgen=$bin/beamgen
failed=0
step() {
    echo
    echo "== $* ($SECONDS s)"
    timeout "${limit:-300}" "$@" || { echo "== FAILED: $?" && failed=1; }
}

echo "# beamgen on a card, $(date -u +%F)"
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv
ls -l "$beamgen"
built=$(cat "$bin/built-in")
[ -e "$built" ] || { mkdir -p "$(dirname "$built")" && ln -s "$PWD" "$built"; }

part_parity() {
    echo "# parity"
    export BEAMGEN_TEST_CUDA=real
    step "$bin/test-kernels" --test-threads 1
    step "$bin/test-engine" --test-threads 1 --nocapture
    step "$bin/test-sampling" --test-threads 1
    step "$bin/test-golden" --test-threads 1 --nocapture cuda
    step "$bin/test-prm" --test-threads 1 cuda
    unset BEAMGEN_TEST_CUDA
    step python3 benches/gpu/parity.py "$beamgen" ${PROBLEMS:-200}
    # It does not know every machine's device (under gVisor, say).
    if ! command -v compute-sanitizer >/dev/null; then
        echo "# there is no compute-sanitizer"
        return
    fi
    local small=("$beamgen" solve models/abacus/sample.jsonl -q -n 4 --device cuda --kv-memory 64MiB) said
    said=$(timeout 100 compute-sanitizer "${small[@]}" --limit 1 2>&1)
    if [[ $said == *"Device not supported"* ]]; then
        echo "# compute-sanitizer does not know this device"
    else
        step compute-sanitizer --error-exitcode 9 "${small[@]}" --limit 2
    fi
}

part_kernels() {
    echo "# kernels at the sizes of Qwen2.5-1.5B in bfloat16"
    step "$bin/kernels"
    # What a library's product reaches, for rows enough.
    python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null && step python3 benches/gpu/ceiling.py
}

part_decode() {
    echo "# decoding: tokens a second, weights GB/s beside the card's"
    for shape in 0.5b 1.5b 7b; do
        step "$beamgen" bench-engine --model benches/gpu/shapes/$shape --random --device cuda --batch 1,16,64,256 --prefix 512,4096 --new 32 --repeat 5
    done
}

part_search() {
    [ -e "$bin/sal_pipeline.py" ] || { echo "# prepare.sh was given no peers' scripts: no search" && return; }
    python3 -c 'import transformers, torch; assert torch.cuda.is_available()' || { echo "# no transformers on a card: no search" && return; }
    models=/tmp/beamgen-models
    gen=$models/qwen1.5b-qwen2-gen
    problems=benches/peers/problems.jsonl
    system='Please reason step by step, and put your final answer within \boxed{}.'
    local limit=600
    [ -e $gen ] || step python3 benches/gpu/peers.py make_models --preset qwen1.5b --kind gen --dtype bf16 --out $models
    for size in ${PRM:-1.5b 7b}; do
        prm=$models/qwen$size-qwen2-prm-mlp
        [ -e $prm ] || step python3 benches/gpu/peers.py make_models --preset qwen$size --kind prm-mlp --dtype bf16 --out $models
        echo "# search, 1.5B generator and PRM of $size, beside transformers doing search-and-learn's procedure"
        for n in ${N:-16 64 256}; do
            count=$((n < 256 ? 3 : 1))
            step "$beamgen" solve $problems --generator $gen --prm $prm --config configs/search/fixed-length.toml -n $n -m 4 --max-steps 6 \
                --set generator.step_tokens=24 --temperature 0.8 --set "generator.system_prompt=$system" --in-flight 1 --limit $count \
                --dtype bf16 --device cuda --json --quiet
            step python3 benches/gpu/peers.py sal_pipeline --gen $gen --prm $prm --n $n --beam-width 4 --max-steps 6 --step-tokens 24 \
                --problems $problems --limit $count --dtype bf16
        done
    done
}

for part in "$@"; do
    "part_$part"
    [ $part != parity ] || [ $failed = 0 ] || { echo "# parity failed: nothing is timed" && exit 1; }
done
echo
echo "# done in $SECONDS s; failures: $failed"
exit $failed
