#!/usr/bin/env bash
# Compares kinds of supervision in the bundled world on one budget: benches/supervision/run.sh W
# (W: the folder for all files). The labels of each kind may cost BUDGET sampled tokens. Ratings
# come from the exact checker, which stands for a person who never errs. Reward models start from
# the bundled generator and train for UPDATES updates, at most 20 epochs. An interrupted run can be
# continued.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../stages.sh"
: "${BUDGET:=600000}" "${SEED:=0}" "${UPDATES:=600}" "${TEST:=250}" "${RL_UPDATES:=40}" "${RATE:=1e-3}" "${CUT:=0.9}"
mkdir -p "$1"; cd "$1"

first() { [ -e "$3" ] || { head -n "$1" "$2" > "$3.part" && mv "$3.part" "$3"; }; } # first COUNT FILE OUT
train() { # train KIND NAME DATA MORE...
  local lines epochs
  lines=$(wc -l < "$3"); epochs=$(((UPDATES * 16 + lines - 1) / lines))
  stage "$2" "$beamgen" train "$1" --from bundled --data "$3" --out "$2" --seed "$SEED" --learning-rate "$RATE" --float32 \
    --epochs $((epochs < 20 ? epochs : 20)) $(goes_on "$2/work/state.safetensors") "${@:4}"
}

[ -e train.jsonl ] || "$beamgen" problems --count 40000 --split train --seed 91 > train.jsonl
[ -e test.jsonl ] || "$beamgen" problems --count "$TEST" --seed 92 > test.jsonl

# A sampled chain costs about 76 tokens. With eight rollouts of each step, none shared, it costs
# about 990.
chains=$((BUDGET / 76)) rolled=$((BUDGET / 990))
[ -e chains.json ] || "$beamgen" label train.jsonl --limit $((chains / 4)) --chains 4 --rollouts 0 --out chains.jsonl --quiet --json > chains.json
[ -e rolled.json ] || "$beamgen" label train.jsonl --limit $((rolled / 4)) --chains 4 --rollouts 8 --out rolled.jsonl --quiet --json > rolled.json
stage sample-test "$beamgen" label test.jsonl --chains 4 --rollouts 0 --out test-chains.jsonl --quiet
stage truth "$beamgen" labels judge test-chains.jsonl --checker exact --as label --out truth.jsonl
stage rated "$beamgen" labels judge chains.jsonl --checker exact --out rated.jsonl
stage checked "$beamgen" labels judge chains.jsonl --checker arithmetic --out checked.jsonl
# A chain of the bundled generator has about six steps.
for ratings in 100 300 1000; do first $((ratings / 6)) rated.jsonl "people-$ratings.jsonl"; done

exact=(--rule verdict=exact,pass=exact)
train orm orm chains.jsonl --rule outcome
train prm rollouts rolled.jsonl --rollout-label soft
train prm checker checked.jsonl --rule verdict,pass
train prm checker-outcome checked.jsonl --rule verdict,outcome,pass
for ratings in 100 300 1000; do train prm "people-$ratings" "people-$ratings.jsonl" "${exact[@]}"; done
train prm people-all rated.jsonl "${exact[@]}"
# The model trained on 1,000 ratings judges all chains; `self` is trained on the judgements of which
# it is sure.
stage judged "$beamgen" labels judge chains.jsonl --prm people-1000 --out judged.jsonl
train prm self judged.jsonl --rule "judge:$CUT"
if [ "$RL_UPDATES" -gt 0 ]; then
  stage rl "$beamgen" train rl --from bundled --problems train.jsonl --out rl --seed "$SEED" --updates "$RL_UPDATES" --algorithm dr-grpo \
    --learning-rate 5e-4 --groups 32 --group 8 --max-chain-tokens 300 --patience 0 $(goes_on rl/work/state.safetensors)
fi

measure() { # measure NAME STRATEGIES MORE...: a search or a choice among 16 samples
  stage "bench-$1" "$beamgen" bench test.jsonl --strategies "$2" --n 16 --seeds 1 --out "bench-$1" "${@:3}"
}
for kind in rollouts checker checker-outcome people-100 people-300 people-1000 people-all self bundled; do
  model=(--prm "$kind"); [ "$kind" = bundled ] && model=()
  stage "eval-$kind" "$beamgen" eval-prm --data truth.jsonl --probes "${model[@]}" --report "eval-$kind"
  measure "$kind" best-of-n,beam "${model[@]}"
done
stage eval-orm "$beamgen" eval-prm --data truth.jsonl --probes --prm orm --aggregation last --report eval-orm
measure orm best-of-n,beam --prm orm --aggregation last
measure plain single,majority
[ "$RL_UPDATES" -eq 0 ] || measure rl single,majority --generator rl
python3 "$here/table.py" .
