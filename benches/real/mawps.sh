#!/usr/bin/env bash
# The same on easier problems, in less than three hours of 2 cores without VNNI: benches/real/mawps.sh DATA SMOLLM2.gguf W
# A generator by a short fine-tuning and RL, reward models of its rollouts on MAWPS, their calibration, searches.
# SFT_PROBLEMS, UPDATES and PROBLEMS (the most of each part) choose less of it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../stages.sh"
data=$(realpath "$1") gguf=$(realpath "$2")
mkdir -p "$3"; cd "$3"
: "${TEMPERATURE:=0.7}" "${TOP:=8}" "${SFT_PROBLEMS:=1200}" "${UPDATES:=24}" "${PROBLEMS:=1000}"

stage data python3 "$here/prepare.py" "$data" data
stage mawps python3 "$here/prepare_mawps.py" "$data" data/mawps "$PROBLEMS"
sed -n "1,${SFT_PROBLEMS}p" data/sft.jsonl > data/sft-train.jsonl
stage sft "$beamgen" train sft --from "$gguf" --data data/sft-train.jsonl --out sft --train "top=$TOP" --frozen-dtype int8 \
  --learning-rate 5e-4 $(goes_on sft/work)
stage generator "$beamgen" train rl --from sft --problems data/mawps/rl.jsonl --held-out-problems data/mawps/rl-held.jsonl \
  --algorithm dapo --group 8 --groups 8 --updates "$UPDATES" --train "top=$TOP,lora=16" --learning-rate 7e-4 --micro-tokens 1024 \
  --max-chain-tokens 100 --max-step-tokens 80 --samples 2 --evaluate-every 8 --out generator $(goes_on generator/work/state.safetensors)

sampling=(--dtype int8 --kv-dtype f16 --in-flight 32
  --set generator.max_chain_tokens=120 --set generator.max_step_tokens=80)
label() { # label PROBLEMS TEMPERATURE OUT MORE...
  stage "$3" "$beamgen" label "data/mawps/$1.jsonl" --generator generator "${sampling[@]}" --temperature "$2" --out "$3" \
    $(goes_on "$3") "${@:4}"
}
label label "$TEMPERATURE" labels.jsonl --mixed --chains 8 --rollouts 4
stage labels-stat "$beamgen" labels stat --rollout-label soft labels.jsonl
train() { # train KIND MORE...
  stage "$1" "$beamgen" train "$1" --from generator --data labels.jsonl --out "$1" --train "top=$TOP" --frozen-dtype int8 \
    --epochs 2 --learning-rate 2e-4 --held-out 0.1 $(goes_on "$1/work") "${@:2}"
}
train prm --rollout-label soft
train orm

# Two policies of one generator.
for t in "$TEMPERATURE" 1.0; do
  label cal "$t" "cal-$t.jsonl" --chains 4 --rollouts 8
  stage "calibrate-$t" "$beamgen" calibrate --prm prm --data "cal-$t.jsonl" --held-out 0.4 --out "cal-$t.json" --plots "plots-$t"
  stage "report-$t" "$beamgen" eval-prm --data "cal-$t.jsonl" --rollout-label soft --prm prm --report "report-$t"
done

cp "$here/mawps.toml" .   # its paths are its folder's
stage bench "$beamgen" bench --config mawps.toml "${sampling[@]}" --temperature "$TEMPERATURE" --out bench $(goes_on bench)

# All chains that are right, and 60 that are not: probes cost twelve times the scoring.
{ grep '"outcome":true' "cal-$TEMPERATURE.jsonl" || true; grep '"outcome":false' "cal-$TEMPERATURE.jsonl" | shuf --random-source="cal-$TEMPERATURE.jsonl" | sed -n 1,60p; } > probed.jsonl
stage probes "$beamgen" eval-prm --data probed.jsonl --prm prm --probes --report probes

# A threshold for answers at a stated error, checked on other problems. Where none keeps it, this fails and says so.
for part in risk check; do
  stage "$part" "$beamgen" solve "data/mawps/$part.jsonl" -q --generator generator --prm prm "${sampling[@]}" \
    --temperature "$TEMPERATURE" --strategy weighted -n 8 --out "$part.jsonl" $(goes_on "$part.jsonl")
done
stage answers "$beamgen" calibrate --prm prm --runs risk.jsonl --check check.jsonl --max-error 0.05 --out "cal-$TEMPERATURE.json" --plots plots-answers
