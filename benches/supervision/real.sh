#!/usr/bin/env bash
# Labels of several sources next to each other on ProcessBench's GSM8K part, with the body of a real model:
# benches/supervision/real.sh DATA GGUF W   (DATA: the folder of the data files; W: a folder for everything)
# Each reward model learns from the same LEARN chains for EPOCHS epochs; TEST chains of other problems measure it, against people.
# The first FEW chains with people's labels are enough for the model that judges the others. POOL problems of
# gsm8k_model_solutions.jsonl are chosen from; 0 leaves that out. An interrupted run continues.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
data=$(realpath "$1") from=$(realpath "$2")
source "$here/../stages.sh"
: "${LEARN:=250}" "${TEST:=100}" "${FEW:=$((LEARN / 3))}" "${EPOCHS:=2}" "${BATCH:=4}" "${TOP:=4}" "${RATE:=5e-4}" "${CUT:=0.8}" "${POOL:=150}" "${SEED:=0}"
: "${KINDS:=people checker outcomes few self}"
mkdir -p "$3"; cd "$3"

stage checked "$beamgen" labels judge "$data/processbench_gsm8k.json" --checker arithmetic --out checked.jsonl
# No problem is on both sides. All chains to learn from have a verdict of the checker, so that every kind has the same ones.
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
