#!/usr/bin/env bash
# A reward model after its generator has changed: benches/adapt/run.sh W   (W: a folder for everything)
# RLVR changes the bundled generator; `beamgen adapt` trains the bundled reward model further on chains of the new one. The same searches run
# before RLVR, after it, and after the adaptation. About 20 minutes on two cores.
# Last, RL by values of rollouts next to outcomes and step scores, over SEEDS. BEAMGEN names a program with the feature train.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../stages.sh"
generator=$(realpath "$here/../../models/abacus/generator") prm=$(realpath "$here/../../models/abacus/prm")
: "${UPDATES:=40}" "${CREDIT_UPDATES:=8}" "${SEEDS:=0 1 2}" "${TEST:=250}" "${RATE:=5e-4}"
mkdir -p "$1"; cd "$1"

problems() { [ -e "$1" ] || { "$beamgen" problems "${@:2}" > "$1.part" && mv "$1.part" "$1"; }; }
problems train.jsonl --count 8000 --split train --seed 71
problems held-out.jsonl --count 200 --seed 72
problems test.jsonl --count "$TEST" --seed 73
problems adapt.jsonl --count 400 --split train --seed 74

rl() { # rl NAME SEED UPDATES MORE...
  # A run killed before its first saved state begins again.
  [ -e "$1/work/state.safetensors" ] || rm -rf "$1"
  stage "$1" "$beamgen" train rl --from "$generator" --problems train.jsonl --held-out-problems held-out.jsonl --out "$1" --seed "$2" \
    --updates "$3" --learning-rate "$RATE" --groups 32 --group 8 --max-chain-tokens 300 --patience 0 --algorithm dr-grpo \
    $(goes_on "$1/work/state.safetensors") "${@:4}"
}
search() { # search NAME GENERATOR PRM
  for how in beam best-of-n; do
    stage "search-$1-$how" "$beamgen" solve test.jsonl --generator "$2" --prm "$3" --prm-format step-token --strategy $how -n 16 \
      --out "search-$1-$how.jsonl" --quiet
  done
}

rl policy 0 "$UPDATES"
search start "$generator" "$prm"
search policy policy "$prm"
# Labels by completions: the new policy has steps that the exact checker calls wrong and that lead to right answers.
stage adapt "$beamgen" adapt --generator policy --prm "$prm" --prm-format step-token --problems adapt.jsonl --area 0.999 -n 0 \
  --chains 4 --label-rollouts 8 --first 300 --prm-learning-rate 3e-4 --out adapt $(goes_on adapt/work)
[ ! -e adapt/model.safetensors ] || search adapted policy adapt

for seed in $SEEDS; do
  rl "credit-outcome-$seed" "$seed" "$CREDIT_UPDATES"
  rl "credit-rollouts-$seed" "$seed" "$CREDIT_UPDATES" --reward rollouts --rollouts 4
  rl "credit-prm-$seed" "$seed" "$CREDIT_UPDATES" --reward prm --credit differences
done

# PRIME: a log-ratio to the first policy, which learns outcomes before and after every update, gives the steps their rewards.
if [ "${PRIME:=1}" = 1 ]; then
  problems outcomes-problems.jsonl --count 200 --split train --seed 75
  stage outcomes "$beamgen" label outcomes-problems.jsonl --chains 8 --rollouts 0 --out outcomes.jsonl
  stage implicit "$beamgen" train orm --from "$generator" --data outcomes.jsonl --prm-format implicit-prm --prm-reference "$generator" --out implicit \
    --learning-rate 1e-4 --epochs 1
  for seed in $SEEDS; do
    rl "prime-$seed" "$seed" "$CREDIT_UPDATES" --reward both --credit sum --prm implicit --prm-reference "$generator" --refresh-prm 1 --refresh-problems 32 --chains 4
  done
fi
