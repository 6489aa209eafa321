#!/usr/bin/env bash
# The README's table of strategies and the growth of PRM work with chain length. CPU, about 15 minutes on 2 cores.
# usage: benches/table.sh [OUT_DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-benches/results/$(date +%F)-strategies}
mkdir -p "$out"
cargo build --release
beamgen=target/release/beamgen
{
  echo "date: $(date -u +%FT%TZ)"
  echo "commit: $(git rev-parse --short HEAD)"
  echo "machine: $(nproc) CPUs, $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | xargs)"
} > "$out/machine.txt"

held=$(mktemp)
trap 'rm -f "$held"' EXIT
$beamgen problems --count 500 --seed 11 > "$held"
{
  $beamgen bench "$held" --seeds 3 --strategies single,majority --scorers none --json
  $beamgen bench "$held" --seeds 3 --strategies best-of-n --scorers orm,prm,exact --json
  $beamgen bench "$held" --seeds 3 --strategies beam --scorers prm,exact --json
} > "$out/strategies.jsonl"

# The same search on problems of 3 to 7 people: the chains grow, the tokens that the PRM reads per step do not.
for people in 3 4 5 6 7; do
  $beamgen problems --count 100 --seed 12 --min-people $people --max-people $people > "$held"
  $beamgen bench "$held" --strategies best-of-n,beam --json |
    sed "s/^{/{\"people\": $people, /"
done > "$out/growth.jsonl"
echo "written: $out"
