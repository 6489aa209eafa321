#!/usr/bin/env bash
# One more column of the table of probes: benches/probes/run.sh RESULTS NAME DATA PRM...
# RESULTS: the folder with a report for each model, NAME: this one's; DATA: labelled chains; PRM...: the flags that name the
# model (none: the bundled one), such as `--prm DIR`. Prints the table of all models that are in RESULTS.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
beamgen=${BEAMGEN:-$here/../../target/release/beamgen}
results=$1 name=$2 data=$3
[ -e "$results/$name/report.md" ] || "$beamgen" eval-prm --data "$data" --probes --report "$results/$name" "${@:4}" >&2
python3 "$here/table.py" "$results"
