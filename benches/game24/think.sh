#!/usr/bin/env bash
# A generator that thinks before it answers, over the budget of its thought: benches/game24/think.sh GAMES W
# W is the folder of run.sh, whose generator and reward model are used.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../stages.sh"
games=$(realpath "$1")
cd "$2"
: "${TRACES:=2400}" "${LIMIT:=100}"

python=$(command -v python3)
[ -e think.jsonl ] || { "$python" "$here/think.py" "$games" think.new --traces "$TRACES"; mv think.new think.jsonl; }
stage think "$beamgen" train sft --from sft --data think.jsonl --out think --train top=12 --frozen-dtype int8 --restrict-vocabulary \
  --chat-template "$here/think.jinja" --batch 8 --learning-rate 4e-4 --held-out 0.01 $(goes_on think/work/state.safetensors)
# A judge of one token, from the data of the PRM.
stage judge "$beamgen" train prm --from sft --data pooled.jsonl --out judge --prm-format "$here/judge.toml" --train top=12 --frozen-dtype int8 --rollout-label soft \
  --epochs 1 --learning-rate 3e-4 --held-out 0.05 $(goes_on judge/work/state.safetensors)

cp "$here/budgets.toml" .
stage budgets "$beamgen" bench --config budgets.toml --temperature 0.7 --verifier "$python $here/../../examples/verifiers/game24.py" --verifier-open --limit "$LIMIT" \
  --set generator.max_step_tokens=40 --set generator.max_chain_tokens=120 --max-steps 6 --dtype int8 --kv-dtype f16 --in-flight 32 --out budgets $(goes_on budgets)
stage budgets-table "$python" "$here/table.py" - budgets
stage budgets-plot "$python" "$here/budgets.py" budgets budgets/budgets
