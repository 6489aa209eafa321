#!/usr/bin/env bash
# The real case from end to end: benches/real/run.sh DATA SMOLLM2.gguf W   (README.md beside it)
# A stage whose result is in W is skipped; one that was interrupted goes on where it stopped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
data=$(realpath "$1") gguf=$(realpath "$2")
mkdir -p "$3"; cd "$3"
: "${BEAMGEN:=$here/../../target/release/beamgen}" "${TEMPERATURE:=0.7}"
: "${SFT_EXAMPLES:=4000}" "${LABEL_PROBLEMS:=700}" "${TOP:=8}"
# Large buffers stay with the process between updates, as the help of `beamgen train` advises.
export MIMALLOC_PURGE_DELAY=-1

stage() { # stage NAME COMMAND...: unless it is done; what it prints goes into log.txt, too
  local name=$1; shift
  [ -e "done/$name" ] && return
  echo "== $(date -u +%FT%TZ) $*" | tee -a log.txt
  /usr/bin/time -f '%e s, %U s of processor time, at most %M KiB' "$@" 2>&1 | tee -a log.txt
  mkdir -p done; touch "done/$name"
}
goes_on() { [ -e "$1" ] && echo --resume || true; }
train() { # train KIND FROM DATA OUT MORE...
  stage "$4" "$BEAMGEN" train "$1" --from "$2" --data "$3" --out "$4" --train "top=$TOP" --frozen-dtype int8 \
    $(goes_on "$4/work") "${@:5}"
}

stage data python3 "$here/prepare.py" "$data" data
train sft "$gguf" data/sft.jsonl sft --limit "$SFT_EXAMPLES" --learning-rate 5e-4

# The temperature is chosen here, on problems that nothing is trained on.
for t in 0.5 0.7 1.0; do
  stage "dev-$t" "$BEAMGEN" bench data/dev.jsonl --generator sft --scorers none --dtype int8 --temperature "$t" \
    --strategies majority -n 8 --out "dev-$t" $(goes_on "dev-$t")
done

# Labels by rollouts, on problems that the generator was not trained on.
sed -n "$((SFT_EXAMPLES + 1)),$((SFT_EXAMPLES + LABEL_PROBLEMS))p" data/label.jsonl > data/rollouts.jsonl
stage labels "$BEAMGEN" label data/rollouts.jsonl --generator sft --dtype int8 --mode early --chains 8 --rollouts 8 \
  --temperature "$TEMPERATURE" --in-flight 32 --out labels.jsonl $(goes_on labels.jsonl)
stage labels-stat "$BEAMGEN" labels stat labels.jsonl
train prm sft labels.jsonl prm --epochs 2 --learning-rate 2e-4 --held-out 0.1
train orm sft labels.jsonl orm --epochs 2 --learning-rate 2e-4 --held-out 0.1
stage labels-human "$BEAMGEN" labels split "$data/prm800k_holdout.jsonl" --train human-train.jsonl \
  --test human-test.jsonl --share 0.3
train prm sft human-train.jsonl prm-human --epochs 2 --learning-rate 2e-4 --held-out 0.1

cp "$here/test.toml" .   # its paths are its folder's
stage test "$BEAMGEN" bench --config test.toml --temperature "$TEMPERATURE" --out test $(goes_on test)
stage mawps "$BEAMGEN" bench data/mawps.jsonl --generator sft --prm prm --dtype int8 --temperature "$TEMPERATURE" \
  --strategies majority,best-of-n,weighted,beam -n 16 --out mawps $(goes_on mawps)
for model in prm orm prm-human; do
  stage "report-$model" "$BEAMGEN" eval-prm --prm "$model" --report "report-$model" \
    --data "$data/processbench_gsm8k.json" human-test.jsonl
done
