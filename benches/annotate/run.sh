#!/usr/bin/env bash
# The learning curve of people's ratings in the bundled world, with the exact checker as the rater: benches/annotate/run.sh W
# (W: a folder for everything). COUNTS, ORDERS and SEEDS choose less of it, FROM=weak trains the first reward model further.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../stages.sh"
generator=$(realpath "$here/../../models/abacus/generator")
: "${COUNTS:=100 300 1000}" "${ORDERS:=random unsure apart convincing}" "${SEEDS:=0 1 2}" "${FROM:=$generator}" "${EPOCHS:=4}"
mkdir -p "$1"; cd "$1"

[ -e problems.jsonl ] || "$beamgen" problems --count 1000 --split train --seed 81 > problems.jsonl
[ -e test.jsonl ] || "$beamgen" problems --count 500 --seed 82 --steps > test.jsonl
[ -e chains.jsonl ] || stage label "$beamgen" label problems.jsonl --chains 4 --rollouts 4 --out chains.jsonl --quiet
# A first, weak reward model gives the scores that the orders go by.
[ -e weak/model.safetensors ] || stage weak "$beamgen" train prm --from "$generator" --data chains.jsonl --limit 200 --out weak
[ -e judged.jsonl ] || stage judged "$beamgen" labels judge chains.jsonl --prm weak --out judged.jsonl
[ -e truth.jsonl ] || stage truth "$beamgen" labels judge chains.jsonl --checker exact --out truth.jsonl

for seed in $SEEDS; do
  for order in $ORDERS; do
    for count in $COUNTS; do
      name=$order-$count-$seed
      [ -e "$name/model.safetensors" ] && continue
      rm -rf "$name" "$name.jsonl"
      python3 "$here/rate.py" "$beamgen" truth.jsonl judged.jsonl "$name.jsonl" "$order" "$seed" "$count"
      stage "$name" "$beamgen" train prm --from "$FROM" --data "$name.jsonl" --rule rating --epochs "$EPOCHS" --seed "$seed" --out "$name"
    done
  done
done
for model in weak $(for seed in $SEEDS; do for order in $ORDERS; do for count in $COUNTS; do echo "$order-$count-$seed"; done; done; done); do
  printf '%s ' "$model"; "$beamgen" eval-prm --data test.jsonl --prm "$model" --json
done | tee curve.txt
