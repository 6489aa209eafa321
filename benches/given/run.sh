#!/usr/bin/env bash
# Refines and guards given answers in the bundled world: benches/given/run.sh W   (W: the folder for
# all files)
# The answers are single samples of the bundled generator: the first 100 wrong and the first 100
# right ones.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../stages.sh"
mkdir -p "$1"; cd "$1"

[ -e problems.jsonl ] || "$beamgen" problems --count 1500 --seed 4141 > problems.jsonl
stage single "$beamgen" solve problems.jsonl --strategy single --quiet --out single.jsonl
python3 "$here/table.py" choose problems.jsonl single.jsonl 100 > answers.jsonl
stage refine "$beamgen" refine answers.jsonl --out refine.jsonl
stage refine-rounds "$beamgen" refine answers.jsonl --rounds 3 --out refine-rounds.jsonl
stage refine-below "$beamgen" refine answers.jsonl --below 0.5 --out refine-below.jsonl
stage guard "$beamgen" guard answers.jsonl --out guard.jsonl
python3 "$here/table.py" table answers.jsonl refine.jsonl refine-rounds.jsonl refine-below.jsonl guard.jsonl
