#!/usr/bin/env bash
# The real case from end to end: benches/real/run.sh DATA SMOLLM2.gguf W   (README.md beside it)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../stages.sh"
data=$(realpath "$1") gguf=$(realpath "$2")
mkdir -p "$3"; cd "$3"
: "${TEMPERATURE:=0.7}" "${MAX_STEPS:=1000}"   # MAX_STEPS: of the solutions learnt from, and of problems labelled
: "${EPOCHS:=2}" "${SFT_PROBLEMS:=6000}" "${SFT_TOP:=12}" "${LABEL_PROBLEMS:=1000}" "${DEV_PROBLEMS:=100}" "${MAWPS_PROBLEMS:=1000}" "${TOP:=8}"

train() { # train KIND FROM DATA OUT TOP MORE...
  stage "$4" "$beamgen" train "$1" --from "$2" --data "$3" --out "$4" --train "top=$5" --frozen-dtype int8 \
    $(goes_on "$4/work") "${@:6}"
}

stage data python3 "$here/prepare.py" "$data" data "$MAX_STEPS"
sed -n "1,${SFT_PROBLEMS}p" data/sft.jsonl > data/sft-train.jsonl
train sft "$gguf" data/sft-train.jsonl sft "$SFT_TOP" --learning-rate 5e-4

# 5 of 7,173 solutions are longer than 300 tokens, no step than 107. Chains of a weak model that lost its way go on for 2,048.
sampling=(--dtype int8 --kv-dtype f16 --in-flight 32
  --set generator.max_chain_tokens=300 --set generator.max_step_tokens=120)

# The temperature is chosen here, on problems that nothing is trained on.
for t in 0.5 0.7 1.0; do
  stage "dev-$t" "$beamgen" bench data/dev.jsonl --generator sft --scorers none "${sampling[@]}" \
    --temperature "$t" --strategies majority -n 8 --limit "$DEV_PROBLEMS" --out "dev-$t" $(goes_on "dev-$t")
done

# Labels by rollouts, on problems that the generator was not trained on. Few chains of it are right, so most problems have
# none: rollouts are spent where some are. The label is the share of right rollouts, for a hard one would need many of them.
sed -n "$((SFT_PROBLEMS + 1)),$((SFT_PROBLEMS + LABEL_PROBLEMS))p" data/label.jsonl > data/rollouts.jsonl
stage labels "$beamgen" label data/rollouts.jsonl --generator sft "${sampling[@]}" --mixed --chains 12 --rollouts 4 \
  --temperature "$TEMPERATURE" --out labels.jsonl $(goes_on labels.jsonl)
stage labels-stat "$beamgen" labels stat --rollout-label soft labels.jsonl
train prm sft labels.jsonl prm "$TOP" --rollout-label soft --epochs "$EPOCHS" --learning-rate 2e-4 --held-out 0.1
train orm sft labels.jsonl orm "$TOP" --epochs "$EPOCHS" --learning-rate 2e-4 --held-out 0.1

stage labels-human "$beamgen" labels split "$data/prm800k_holdout.jsonl" --train-out human-train.jsonl \
  --test-out human-test.jsonl --share 0.3
train prm sft human-train.jsonl prm-human "$TOP" --epochs "$EPOCHS" --learning-rate 2e-4 --held-out 0.1

for model in prm orm prm-human; do
  stage "report-$model" "$beamgen" eval-prm --prm "$model" --report "report-$model" \
    --data "$data/processbench_gsm8k.json" human-test.jsonl
done

# The long part.
# Shuffled, since the file goes from one kind of problem to the next.
shuf --random-source=data/mawps.jsonl data/mawps.jsonl | sed -n "1,${MAWPS_PROBLEMS}p" > data/mawps-some.jsonl
stage mawps "$beamgen" bench data/mawps-some.jsonl --generator sft --prm prm "${sampling[@]}" --temperature "$TEMPERATURE" \
  --strategies majority,best-of-n,weighted,beam -n 16 --out mawps $(goes_on mawps)
cp "$here/test.toml" .   # its paths are its folder's
stage test "$beamgen" bench --config test.toml "${sampling[@]}" --temperature "$TEMPERATURE" --out test $(goes_on test)
