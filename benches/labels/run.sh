#!/usr/bin/env bash
# Labels of several origins on one budget of tokens, in the bundled world: benches/labels/run.sh W   (W: a folder for everything)
# PROBLEMS are rolled out; the other labels are of as many chains as the same tokens give. EPOCHS and SEED as in `train prm`, CUT that of a judge.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../stages.sh"
generator=$(realpath "$here/../../models/abacus/generator")
: "${PROBLEMS:=500}" "${EPOCHS:=2}" "${SEED:=0}" "${CUT:=0.9}"
mkdir -p "$1"; cd "$1"

label() { # label NAME LIMIT ROLLOUTS
  [ -e "$1.json" ] || { "$beamgen" label problems.jsonl --limit "$2" --chains 4 --rollouts "$3" --out "$1.jsonl" --quiet --json > "$1.part" && mv "$1.part" "$1.json"; }
}
train() { # train NAME DATA MORE...
  stage "$1" "$beamgen" train prm --from "$generator" --data "$2.jsonl" --epochs "$EPOCHS" --seed "$SEED" --out "$1" "${@:3}"
}

[ -e problems.jsonl ] || "$beamgen" problems --count $((PROBLEMS * 60)) --split train --seed 91 > problems.jsonl
[ -e test.jsonl ] || "$beamgen" problems --count 500 --seed 92 --steps > test.jsonl
label rolled "$PROBLEMS" 8
more=$(python3 -c 'import json; of = json.load(open("rolled.json")); print(of["problems"] * of["ledger"]["generated_tokens"] // of["chain_tokens"])')
label chains "$more" 0

train rollouts rolled
[ -e checked.jsonl ] || stage checked "$beamgen" labels judge chains.jsonl --checker arithmetic --out checked.jsonl
[ -e truth.jsonl ] || stage truth "$beamgen" labels judge chains.jsonl --checker exact --out truth.jsonl
[ -e judged.jsonl ] || stage judged "$beamgen" labels judge checked.jsonl --prm rollouts --out judged.jsonl
train checker checked --rule verdict,pass
train checker-outcome checked --rule verdict,outcome,pass
train outcome checked --rule outcome
train self judged --rule "judge:$CUT"
train self-checker judged --rule "verdict,judge:$CUT"
train people truth --rule verdict=exact,pass=exact

for model in rollouts checker checker-outcome outcome self self-checker people; do
  printf '%s ' "$model"; "$beamgen" eval-prm --data test.jsonl --prm "$model" --report "report-$model" --json
done | tee table.txt
