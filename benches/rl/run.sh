#!/usr/bin/env bash
# RL of the bundled generator: benches/rl/run.sh W   (W: a folder for everything; benches/results/2026-11-25-rl says what came out)
# SEEDS, ALGORITHMS, CREDITS, UPDATES, BENCH_N and BENCH_SEEDS choose less of it: SEEDS=0 UPDATES=20 benches/rl/run.sh W is a short one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../stages.sh"
generator=$(realpath "$here/../../models/abacus/generator") prm=$(realpath "$here/../../models/abacus/prm")
: "${SEEDS:=0 1 2}" "${ALGORITHMS=rloo grpo dr-grpo dapo}" "${CREDITS=sum min differences both}" "${UPDATES:=120}"
: "${BENCH_N:=1,4,16,64}" "${BENCH_SEEDS:=3}" "${RATE:=5e-4}" "${PRM_ALGORITHM:=dr-grpo}" "${PRM_UPDATES:=$UPDATES}"
mkdir -p "$1"; cd "$1"

problems() { "$beamgen" problems "${@:2}" > "$1.part" && mv "$1.part" "$1"; }
train() { # train NAME SEED UPDATES MORE...
  # A run killed before its first saved state begins again.
  [ -e "$1/work/state.safetensors" ] || rm -rf "$1"
  stage "$1" "$beamgen" train rl --from "$generator" --problems train.jsonl --held-out-problems held-out.jsonl --out "$1" \
    --seed "$2" --updates "$3" --learning-rate "$RATE" --groups 32 --group 8 --max-chain-tokens 300 --patience 0 $(goes_on "$1/work/state.safetensors") "${@:4}"
}

[ -e train.jsonl ] || problems train.jsonl --count 8000 --split train --seed 71
[ -e held-out.jsonl ] || problems held-out.jsonl --count 200 --seed 72
[ -e test.jsonl ] || problems test.jsonl --count 500 --seed 73

for seed in $SEEDS; do
  for algorithm in $ALGORITHMS; do train "$algorithm-$seed" "$seed" "$UPDATES" --algorithm "$algorithm"; done
  for credit in $CREDITS; do
    case $credit in
      both) how=(--reward both) ;;
      *) how=(--reward prm --credit "$credit") ;;
    esac
    train "prm-$credit-$seed" "$seed" "$PRM_UPDATES" --algorithm "$PRM_ALGORITHM" "${how[@]}"
  done
done

# What search still adds: the start and the policies of the first seed, on problems that nothing was chosen on.
first=${SEEDS%% *}
for policy in start ${ALGORITHMS%% *}-$first prm-both-$first; do
  [ "$policy" = start ] || [ -e "$policy/model.safetensors" ] || continue
  from=$policy; [ "$policy" = start ] && from=$generator
  stage "bench-$policy" "$beamgen" bench test.jsonl --generator "$from" --prm "$prm" --strategies majority,best-of-n,beam \
    --n "$BENCH_N" --seeds "$BENCH_SEEDS" --out "bench-$policy" $([ -e "bench-$policy" ] && echo --resume || true)
done

"${PYTHON:-python3}" "$here/curves.py" .
