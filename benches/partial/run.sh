#!/usr/bin/env bash
# Scores in the middle of a step: trains the bundled reward model further on the beginnings of steps, and measures what their
# scores say before and after, and what early rejection costs with both. Run it in an empty folder; BEAMGEN names a program
# with the feature train. About 40 minutes on two cores.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
: "${TRAIN:=2500}" "${TEST:=300}" "${COUNT:=2}" "${RATE:=3e-4}"
. "$root/benches/stages.sh"

[ -e train.jsonl ] || "$beamgen" problems --count "$TRAIN" --seed 501 --split train > train.jsonl
[ -e test.jsonl ] || "$beamgen" problems --count "$TEST" --seed 502 > test.jsonl
[ -e margin.jsonl ] || "$beamgen" problems --count 400 --seed 503 --split train > margin.jsonl
for set in train test; do
  stage "chains-$set" "$beamgen" label $set.jsonl --chains 8 --rollouts 0 --out "chains-$set.jsonl" --quiet
  stage "rated-$set" "$beamgen" labels judge "chains-$set.jsonl" --checker exact --as label --out "rated-$set.jsonl"
done
stage train "$beamgen" train prm --from "$root/models/abacus/prm" --prm-format step-token --data rated-train.jsonl --partial "$COUNT" \
  --epochs 1 --learning-rate "$RATE" --head-warmup 0 --out model $(goes_on model/work/state.safetensors)
for model in bundled model; do
  flags=(--prm model); [ $model = bundled ] && flags=()
  stage "f1-$model" "$beamgen" eval-prm --data rated-test.jsonl "${flags[@]}"
  stage "beginnings-$model" "$beamgen" eval-prm --data rated-test.jsonl --limit 400 --partial "${flags[@]}"
  for tau in 0 9 11 13 15; do
    stage "search-$model-$tau" "$beamgen" solve test.jsonl --quiet --early-rejection $tau "${flags[@]}"
  done
  # The margin is learnt from searches that pause and reject nothing.
  [ -e "calibration-$model.json" ] || stage "calibrate-$model" "$beamgen" calibrate --data rated-test.jsonl "${flags[@]}" --out "calibration-$model.json"
  for tau in 9 11 13; do
    stage "pauses-$model-$tau" "$beamgen" solve margin.jsonl --quiet --early-rejection $tau --set search.beam.margin=1e9 --tree \
      --out "pauses-$model-$tau.jsonl" "${flags[@]}"
    stage "margin-$model-$tau" bash -c '"$0" calibrate --runs "$1" --out "$2" --json "${@:4}" | tee "$3"' \
      "$beamgen" "pauses-$model-$tau.jsonl" "calibration-$model.json" "margin-$model-$tau.json" "${flags[@]}"
    margin=$(sed -n 's/.*"logits":\([0-9.]*\).*/\1/p' "margin-$model-$tau.json")
    [ -z "$margin" ] || stage "search-$model-$tau-margin" "$beamgen" solve test.jsonl --quiet --early-rejection $tau \
      --set search.beam.margin="$margin" "${flags[@]}"
  done
done
