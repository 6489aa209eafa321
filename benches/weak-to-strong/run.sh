#!/usr/bin/env bash
# Weak to strong: reward models trained on easy problems, measured on easy and on hard ones (README.md beside it).
#   run.sh world W                                  the bundled world, by number of people: some minutes on 2 cores
#   run.sh levels DATA BODY W                       PRM800K's held-out ratings, by level; BODY: the model that is trained further
#   run.sh gsm8k-math DATA GENERATOR PRM ORM W      reward models of GSM8K, on GSM8K and on MATH
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../stages.sh"

train() { # train KIND FROM DATA OUT MORE...
  stage "$4" "$beamgen" train "$1" --from "$2" --data "$3" --out "$4" $(goes_on "$4/work") "${@:5}"
}
into() { mkdir -p "$1"; cd "$1"; }

world() {
  into "$1"
  : "${CHAINS:=8000}"
  local generator; generator=$(realpath "$here/../../models/abacus/generator")
  # Chains of imperfect pupils with the exact checker's labels. The hard ones are for the measurement alone, and "all" is what a
  # reward model would be that had seen hard problems, too.
  "$beamgen" problems --steps --split train --seed 11 --count "$CHAINS" --min-people 3 --max-people 4 > easy.jsonl
  "$beamgen" problems --steps --split train --seed 12 --count "$CHAINS" --min-people 3 --max-people 7 > all.jsonl
  "$beamgen" problems --steps --seed 13 --count 400 --min-people 3 --max-people 4 > test.jsonl
  "$beamgen" problems --steps --seed 14 --count 400 --min-people 6 --max-people 7 >> test.jsonl
  local recipe=(--epochs 2 --batch 32 --micro-tokens 4096 --learning-rate 5e-4 --held-out 0.05)
  train prm "$generator" easy.jsonl prm-easy "${recipe[@]}"
  train orm "$generator" easy.jsonl orm-easy "${recipe[@]}"
  train prm "$generator" all.jsonl prm-all "${recipe[@]}"
  for model in prm-easy prm-all; do
    stage "steps-$model" "$beamgen" eval-prm --data test.jsonl --prm "$model" --probes --report "steps-$model"
  done
  cp "$here/world.toml" .   # its paths are its folder's
  stage bench "$beamgen" bench --config world.toml --out bench $(goes_on bench)
}

levels() {
  local data body; data=$(realpath "$1") body=$(realpath "$2"); into "$3"
  local holdout=$data/prm800k_holdout.jsonl
  : "${TOP:=8}" "${PROBED:=60}"
  # By problem: a third of the easy ones are kept to measure in distribution; all hard ones are out of it. No chain of these files
  # has an outcome (most end at their first wrong step), so there is no ORM here.
  stage easy "$beamgen" labels split "$holdout" --level 'Level 1,Level 2,Level 3' --train-out easy.jsonl --test-out test-easy.jsonl \
    --share 0.33 --seed 2 # with seed 0 one problem with most of the chains is among the test's
  stage hard "$beamgen" labels convert "$holdout" --level 'Level 4,Level 5' --to beamgen --out test-hard.jsonl
  cat test-easy.jsonl test-hard.jsonl > test.jsonl
  train prm "$body" easy.jsonl prm-easy --train "top=$TOP" --frozen-dtype int8 --epochs 2 --learning-rate 2e-4 --held-out 0.1
  stage steps "$beamgen" eval-prm --data test.jsonl --prm prm-easy --report steps   # by level
  # Probes, and easy against hard with an interval (the shift "harder level"), of some: they cost twelve times the scoring. Two
  # thirds are right to the end, as some probes want them; of all chains that are one in eight.
  local right=$((PROBED * 2 / 3))
  shuffled() { shuf --random-source=test.jsonl | sed -n "1,$1p"; }
  { grep -v '"rating":-1' test.jsonl | shuffled "$right"; grep '"rating":-1' test.jsonl | shuffled $((PROBED - right)); } > probed.jsonl
  stage probes "$beamgen" eval-prm --data probed.jsonl --prm prm-easy --probes --report probes
}

gsm8k-math() {
  local data generator prm orm; data=$(realpath "$1") generator=$(realpath "$2") prm=$(realpath "$3") orm=$(realpath "$4"); into "$5"
  : "${PROBLEMS:=250}" "${TEMPERATURE:=0.7}" "${N:=16}"
  local sampling=(--dtype int8 --kv-dtype f16 --in-flight 32 --temperature "$TEMPERATURE"
    --set generator.max_chain_tokens=400 --set generator.max_step_tokens=120)
  ln -sfn "$data" data; ln -sfn "$generator" generator; ln -sfn "$prm" prm; ln -sfn "$orm" orm
  head -n "$PROBLEMS" data/gsm8k_test.jsonl > gsm8k.jsonl
  head -n "$PROBLEMS" data/math500_first250.jsonl > math.jsonl
  sed "s/n = \[16\]/n = [$N]/; s/@16/@$N/" "$here/gsm8k-math.toml" > gsm8k-math.toml
  stage bench "$beamgen" bench --config gsm8k-math.toml "${sampling[@]}" --out bench $(goes_on bench)
  # ProcessBench has the first wrong step of chains on both.
  for model in prm orm; do
    stage "steps-$model" "$beamgen" eval-prm --prm "$model" --report "steps-$model" \
      --data data/processbench_gsm8k.json data/processbench_math.json
  done
}

case "${1:-}" in
  world | levels | gsm8k-math) "$@" ;;
  *) sed -n '2,6s/^# *//p' "$0" >&2; exit 2 ;;
esac
