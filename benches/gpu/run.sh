#!/usr/bin/env bash
# benches/gpu/run.sh [OUT]
#
# On a machine with a driver and nothing else (Python with torch and transformers for the last part), after prepare.sh was
# run elsewhere: parity first, then timings. Builds nothing. Everything it prints is also in OUT/gpu.txt.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${1:-${OUT:-/tmp/beamgen-gpu}}
mkdir -p "$out"
exec > >(tee "$out/gpu.txt") 2>&1
bin=$PWD/benches/gpu/bin
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

echo "# parity"
export BEAMGEN_TEST_CUDA=real
step "$bin/test-kernels" --test-threads 1
step "$bin/test-engine" --test-threads 1
step "$bin/test-golden" --test-threads 1 --nocapture cuda
step "$bin/test-prm" --test-threads 1 cuda
unset BEAMGEN_TEST_CUDA
sample=models/abacus/sample.jsonl
for dtype in f32 auto; do
    for device in cpu cuda; do
        echo "# bundled pair, $dtype, $device"
        step bash -c "$beamgen solve $sample -q --device $device --dtype $dtype --json | tail -1"
    done
done
command -v compute-sanitizer >/dev/null && step compute-sanitizer --error-exitcode 9 "$beamgen" solve $sample -q --limit 2 -n 4 --device cuda
[ $failed = 0 ] || { echo "# parity failed: no timings" && exit 1; }

echo "# kernels at the sizes of Qwen2.5-1.5B in bfloat16"
step "$bin/kernels"

echo "# decoding: tokens a second, weights GB/s beside the card's"
for shape in 0.5b 1.5b 7b; do
    step "$beamgen" bench-engine --model benches/gpu/shapes/$shape --random --device cuda --batch 1,16,64,256 --prefix 512,4096 --new 32 \
        --repeat 5 --kv-memory 24GiB
done

if [ -e "$bin/sal_pipeline.py" ] && python3 -c 'import transformers, torch; assert torch.cuda.is_available()'; then
    echo "# search, 1.5B generator and 1.5B PRM (with PRM=7b a PRM of 7B), beside transformers doing search-and-learn's procedure"
    models=/tmp/beamgen-models
    make_models() {
        limit=600 step python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import make_models as m
m.PRESETS["qwen7b"] = (3584, 28, 28, 4, 18944, 152064, False, 1e6); sys.argv[1:] = sys.argv[2:]; m.main()' "$bin" --dtype bf16 --out $models "$@"
    }
    prm=qwen${PRM:-1.5b}-qwen2-prm-mlp
    [ -e $models/qwen1.5b-qwen2-gen ] || make_models --preset qwen1.5b --kind gen
    [ -e $models/$prm ] || make_models --preset "qwen${PRM:-1.5b}" --kind prm-mlp
    problems=benches/peers/problems.jsonl
    system='Please reason step by step, and put your final answer within \boxed{}.'
    for n in 16 64 256; do
        step "$beamgen" solve $problems --generator $models/qwen1.5b-qwen2-gen --prm $models/$prm --config configs/search/fixed-length.toml \
            -n $n -m 4 --max-steps 6 --set generator.step_tokens=24 --temperature 0.8 --set "generator.system_prompt=$system" --in-flight 1 --limit 3 \
            --dtype bf16 --device cuda --kv-memory 32GiB --json --quiet
        # The script names no device, so everything is made on the card.
        step python3 -c 'import runpy, sys, torch; torch.set_default_device("cuda"); sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name="__main__")' \
            "$bin/sal_pipeline.py" --gen $models/qwen1.5b-qwen2-gen --prm $models/$prm --n $n --beam-width 4 --max-steps 6 \
            --step-tokens 24 --problems $problems --limit 3 --dtype bf16
    done
fi
echo
echo "# done in $SECONDS s; failures: $failed"
exit $failed
