#!/usr/bin/env bash
# The Game of 24 from end to end: benches/game24/run.sh GAMES SMOLLM2.gguf W   (README.md beside it)
# QUICK=1: a small form of it, with 20 games, in at most 20 minutes on two cores.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../stages.sh"
games=$(realpath "$1") gguf=$(realpath "$2")
mkdir -p "$3"; cd "$3"
if [ "${QUICK:-}" = 1 ]; then
  : "${TRACES:=1000 600}" "${LABEL:=40}" "${LIMIT:=20}" "${SEEDS:=1}" "${UPDATES:=2}" "${MORE:=0}"
fi
: "${TRACES:=6000 10000}" "${TOP:=12}" "${LABEL:=400}" "${CHAINS:=8}" "${ROLLOUTS:=4}" "${EPOCHS:=2}" "${UPDATES:=14}" "${TEMPERATURE:=0.7}"
: "${LIMIT:=100}" "${SEEDS:=3}" "${MORE:=1}"

python=$(command -v python3)
verifier=(--verifier "$python $here/../../examples/verifiers/game24.py" --verifier-open)
# A chain is three steps of 18 tokens and an answer of 8.
chains=(--set generator.max_step_tokens=40 --set generator.max_chain_tokens=120 --max-steps 6 --dtype int8 --kv-dtype f16 --in-flight 32)
train() { # train KIND FROM DATA OUT TOP MORE...
  stage "$4" "$beamgen" train "$1" --from "$2" --data "$3" --out "$4" --train "top=$5" --frozen-dtype int8 $(goes_on "$4/work") "${@:6}"
}

stage data "$python" "$here/prepare.py" "$games" data --traces $TRACES
tune=(--restrict-vocabulary --chat-template "$here/plain.jinja" --batch 8 --learning-rate 4e-4 --held-out 0.01)
train sft "$gguf" data/sft-1.jsonl sft-1 "$TOP" "${tune[@]}"
train sft sft-1 data/sft-2.jsonl sft "$TOP" "${tune[@]}"

# How good the generator is, on games that nothing is trained on: legal steps, and 24 within reach, by the exact solver.
stage dev-chains "$beamgen" label data/dev.jsonl --generator sft --chains 16 --rollouts 0 --temperature "$TEMPERATURE" "${chains[@]}" "${verifier[@]}" \
  --out dev-chains.jsonl $(goes_on dev-chains.jsonl)
stage dev-coverage "$python" "$here/truth.py" --coverage dev-chains.jsonl

# Labels by the generator's own rollouts, judged by the verifier.
stage labels "$beamgen" label data/label.jsonl --limit "$LABEL" --generator sft --chains "$CHAINS" --rollouts "$ROLLOUTS" --temperature "$TEMPERATURE" "${chains[@]}" \
  "${verifier[@]}" --out labels.jsonl $(goes_on labels.jsonl)
[ -e pooled.jsonl ] || { "$python" "$here/pool.py" labels.jsonl > pooled.new; mv pooled.new pooled.jsonl; }
stage labels-stat "$beamgen" labels stat --rollout-label soft pooled.jsonl
train prm sft pooled.jsonl prm "$TOP" --rollout-label soft --epochs "$EPOCHS" --learning-rate 3e-4 --held-out 0.05
train orm sft pooled.jsonl orm "$TOP" --epochs "$EPOCHS" --learning-rate 3e-4 --held-out 0.05

# The PRM against the truth, by the number of the step.
[ -e truth.jsonl ] || { "$python" "$here/truth.py" dev-chains.jsonl > truth.new; mv truth.new truth.jsonl; }
for model in prm orm; do
  stage "report-$model" "$beamgen" eval-prm --data truth.jsonl --rule given --prm "$model" --dtype int8 --report "report-$model"
done

# The final rows. The paths in the settings are those of this folder.
rows() { # rows NAME SEEDS
  sed "s|^seeds = .*|seeds = $2|; s|PYTHON|$python|; s|HERE|$here|" "$here/$1.toml" > "$1.toml"
  stage "$1" "$beamgen" bench --config "$1.toml" --temperature "$TEMPERATURE" "${chains[@]}" "${verifier[@]}" --limit "$LIMIT" --out "$1" $(goes_on "$1")
}
rows test "$SEEDS"
[ "$MORE" != 1 ] || rows more 1

# The same generator after reinforcement learning with the verifier.
stage rl "$beamgen" train rl --from sft --problems data/label.jsonl --held-out-problems data/dev.jsonl --out rl "${verifier[@]}" --algorithm dapo --group 8 --groups 12 \
  --updates "$UPDATES" --train "top=$TOP,lora=16" --learning-rate 7e-4 --max-chain-tokens 120 --max-step-tokens 40 --max-steps 6 --samples 2 --evaluate-every "$UPDATES" \
  $(goes_on rl/work/state.safetensors)

rows after-rl 1

# The published rows lie next to the games.
stage table "$python" "$here/table.py" "$(dirname "$games")/game24_published.json" test $([ "$MORE" = 1 ] && echo more) after-rl
