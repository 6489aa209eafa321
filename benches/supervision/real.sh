#!/usr/bin/env bash
# Compares sources of labels on ProcessBench's GSM8K part, with reward models trained from a real
# model: benches/supervision/real.sh DATA GGUF W   (DATA: the folder of the data files; W: the
# folder for all files)
# Each reward model is trained on the same LEARN chains for EPOCHS epochs. TEST chains of other
# problems, labelled by people, measure it. The model that judges for `self` is trained on the first
# FEW chains with people's labels. Solutions of POOL problems in gsm8k_model_solutions.jsonl are
# ranked; 0 skips that. An interrupted run can be continued.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
data=$(realpath "$1") from=$(realpath "$2")
source "$here/../stages.sh"
: "${LEARN:=250}" "${TEST:=100}" "${FEW:=$((LEARN / 3))}" "${EPOCHS:=2}" "${BATCH:=4}" "${TOP:=4}" "${RATE:=5e-4}" "${CUT:=0.8}" "${POOL:=150}" "${SEED:=0}"
: "${KINDS:=people checker outcomes few self}"
mkdir -p "$3"; cd "$3"

stage checked "$beamgen" labels judge "$data/processbench_gsm8k.json" --checker arithmetic --out checked.jsonl
# No problem is in both sets. Every training chain has a verdict of the checker, so that all kinds
# use the same chains.
[ -e learn.jsonl ] || python3 - "$LEARN" "$TEST" "$FEW" <<'PYTHON'
import hashlib, json, sys

learn, test, few = map(int, sys.argv[1:])
def place(line):
    return hashlib.sha256(json.loads(line)["problem"].encode()).hexdigest(), line
lines = [line for _, line in sorted(map(place, open("checked.jsonl")))]
held = lines[-test:]
problems = {json.loads(line)["problem"] for line in held}
spoken = [l for l in lines[:-test] if json.loads(l)["problem"] not in problems and '"verdicts"' in l and ('"pass"' in l or '"fail"' in l)][:learn]
for name, part in ("test", held), ("few", spoken[:few]), ("rest", spoken[few:]), ("learn", spoken):
    open(f"{name}.jsonl", "w").writelines(part)
PYTHON

train() { # train KIND NAME DATA MORE...
  stage "$2" "$beamgen" train "$1" --from "$from" --data "$3" --out "$2" --seed "$SEED" --train "top=$TOP" --frozen-dtype int8 \
    --learning-rate "$RATE" --epochs "$EPOCHS" --batch "$BATCH" --held-out 0 $(goes_on "$2/work/run.json") "${@:4}"
}
for kind in $KINDS; do
  case $kind in
    people) train prm people learn.jsonl --rule given ;;
    checker) train prm checker learn.jsonl --rule verdict,pass ;;
    outcomes) train orm outcomes learn.jsonl --rule outcome ;;
    few) train prm few few.jsonl --rule given ;;
    self)
      stage judged "$beamgen" labels judge rest.jsonl --prm few --dtype int8 --out judged.jsonl
      train prm self judged.jsonl --rule "judge:$CUT" ;;
  esac
  stage "eval-$kind" "$beamgen" eval-prm --data test.jsonl --rule given --prm "$kind" --dtype int8 --report "eval-$kind"
done
[ "$POOL" -eq 0 ] && exit
[ -e pool.jsonl ] || head -n "$POOL" "$data/gsm8k_model_solutions.jsonl" > pool.jsonl
for kind in $KINDS; do
  stage "pool-$kind" "$beamgen" bench --pool pool.jsonl --prm "$kind" --dtype int8 --out "pool-$kind"
done
