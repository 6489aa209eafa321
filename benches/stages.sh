# For scripts of many stages, which source it. A stage whose result is there is skipped; one that was interrupted goes on.

beamgen=$(realpath "${BEAMGEN:-$(dirname "${BASH_SOURCE[0]}")/../target/release/beamgen}")
# Large buffers stay with the process between updates, as the help of `beamgen train` advises.
export MIMALLOC_PURGE_DELAY=-1
TIMEFORMAT='%R s, %U s of processor time'

stage() { # stage NAME COMMAND...: unless it is done; what it prints goes into log.txt, too
  local name=$1; shift
  [ -e "done/$name" ] && return
  echo "== $(date -u +%FT%TZ) $*" | tee -a log.txt
  { time "$@"; } 2>&1 | tee -a log.txt
  mkdir -p done; touch "done/$name"
}
goes_on() { [ -e "$1" ] && echo --resume || true; } # goes_on FILE: the flag, if FILE is there
