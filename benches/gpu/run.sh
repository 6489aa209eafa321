#!/usr/bin/env bash
# benches/gpu/run.sh STAGE [--budget SECONDS] [--dry], or benches/gpu/run.sh --dry: README.md says what the stages are.
#
# On a machine with a driver and Python, after prepare.sh was run elsewhere; builds nothing. Its table comes last; it is in
# $OUT/STAGE.json, too. Exit status: 0, 1 if something failed, 2 if the programs are older than the sources.
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
exec "${PYTHON:-python3}" "$(dirname "$0")/stage.py" "$@"
