#!/usr/bin/env bash
# Trains a reward model of all of a real model's layers on people's ratings (PRM800K) and on false
# steps (corrupt.py), and measures it next to the length of a step:
# benches/real/steps.sh DATA GGUF W   (DATA: the folder of the data files; W: the folder for all files)
# Training takes STAGES stages of UPDATES updates, the last one the rest; an interrupted run can be continued.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
data=$(realpath "$1") from=$(realpath "$2")
source "$here/../stages.sh"
: "${CHAINS:=4000}" "${RATED:=1000}" "${UPDATES:=80}" "${STAGES:=4}" "${BATCH:=16}" "${RATE:=1e-4}" "${TRAIN:=all}" "${SEED:=0}" "${POOL:=150}" "${EVALUATE:=250}"
mkdir -p "$3"; cd "$3"

[ -e corrupted.jsonl ] || python3 "$here/corrupt.py" "$data/gsm8k_train.jsonl" --chains "$CHAINS" --seed "$SEED" > corrupted.new
[ -e corrupted.jsonl ] || mv corrupted.new corrupted.jsonl
# A fifth of PRM800K's problems is held out. No problem of ProcessBench is learnt from.
[ -e train.jsonl ] || python3 - "$data" "$RATED" <<'PYTHON'
import hashlib, json, sys

data, rated = sys.argv[1], int(sys.argv[2])
def number(text):
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)
measured = {c["problem"].strip() for name in ("gsm8k", "math") for c in json.load(open(f"{data}/processbench_{name}.json"))}
# A neutral step counts as right, as in PRM800K's paper.
def labelled(line):
    chain = json.loads(line)
    return json.dumps({"problem": chain["problem"], "steps": chain["steps"], "labels": [int(r >= 0) for r in chain["ratings"]]}) + "\n"
lines = sorted(map(labelled, open(f"{data}/prm800k_holdout.jsonl")), key=number)
held, learnt = [], []
for line in lines:
    problem = json.loads(line)["problem"].strip()
    if number(problem) % 5 == 0:
        held.append(line)
    elif problem not in measured:
        learnt.append(line)
learnt = learnt[:rated] + [l for l in open("corrupted.jsonl") if json.loads(l)["problem"].strip() not in measured]
open("held.jsonl", "w").writelines(held)
open("train.jsonl", "w").writelines(sorted(learnt, key=number))
PYTHON

for i in $(seq "$STAGES"); do
  stop=(--stop-after "$UPDATES")
  if [ "$i" -eq "$STAGES" ]; then stop=(); fi
  stage "train-$i" "$beamgen" train prm --from "$from" --data train.jsonl --rule given --out prm --train "$TRAIN" --seed "$SEED" \
    --learning-rate "$RATE" --batch "$BATCH" --max-example-tokens 512 --held-out 0.02 "${stop[@]}" $(goes_on prm/work/run.json)
done
# Which kind of false step is noticed: problems that nothing was learnt from, each kind with the same right chains.
[ -e kinds.jsonl ] || python3 "$here/corrupt.py" "$data/gsm8k_test.jsonl" --chains "$EVALUATE" --seed 1 > kinds.new
[ -e kinds.jsonl ] || mv kinds.new kinds.jsonl
kinds="operation number result skipped"
for kind in $kinds; do
  grep -E "\"kind\": \"($kind|right)\"" kinds.jsonl > "kind-$kind.jsonl"
done
# The first chains of ProcessBench are all wrong.
for set in "gsm8k $data/processbench_gsm8k.json" "math $data/processbench_math.json" "prm800k held.jsonl" $(printf 'kind-%s ' $kinds); do
  read -r name file <<< "$set"
  stage "eval-$name" "$beamgen" eval-prm --data "${file:-$name.jsonl}" --rule given --prm prm --dtype int8 --limit "$([ "$name" = gsm8k ] && echo 400 || echo "$EVALUATE")" --report "eval-$name"
done
[ "$POOL" -eq 0 ] && exit
[ -e pool.jsonl ] || head -n "$POOL" "$data/gsm8k_model_solutions.jsonl" > pool.jsonl
stage pool "$beamgen" bench --pool pool.jsonl --prm prm --dtype int8 --out pool
