"""What is run on a login node, as constant scripts for /bin/sh that take arguments."""

from __future__ import annotations

HOME = 'printf %s "$HOME/.local/state/gpuconsole/slurm"'

CREATE = """umask 077
[ -e "$1/labels" ] || { mkdir -p "$1" && tar -C "$1" -xf -; }
"""

UNPACK = 'umask 077; mkdir -p "$1" && tar -C "$1" "-x${2}f" -'

LOOK = """cd "$1" 2>/dev/null || exit 4
for file in labels array id began exit; do
  echo "$2 $file"
  [ ! -e "$file" ] || head -c 4096 "$file"
  echo
done
echo "$2 slurm"
[ ! -s id ] || scontrol -o show job "$(head -c 40 id)" 2>&1
exit 0
"""

_DEPEND = """depend=
for run in $(cat after); do
  tries=0
  while [ -d "../$run" ] && [ ! -s "../$run/id" ] && [ "$tries" -lt 20 ]; do
    sleep 1
    tries=$((tries + 1))
  done
  [ -d "../$run" ] || continue
  [ -s "../$run/id" ] || exit 75
  depend="$depend:$(cat "../$run/id")"
done
set -- --parsable "$batch"
[ -z "$depend" ] || set -- "--dependency=afterok$depend" "$@"
found=$(env -u LC_ALL -u SLURM_TIME_FORMAT sbatch "$@") || exit
"""
"""Hands `$batch` over from within a run's folder; what the run comes after must have been handed
over before, or be gone."""

SUBMIT = (
    """cd "$1" || exit 4
name=$2
exec 9>lock
flock -w 60 9 || exit 75
if [ -e array ]; then
  read -r group task <array
  exec 8>"../../arrays/$group/lock"
  flock -w 60 8 || exit 75
  if [ ! -s id ]; then
    found=$(squeue -h -a -t all -o %F "--name=$group") || exit
    [ -z "$found" ] || printf '%s\\n' "$found" | sed "1s/$/_$task/;q" >id
  fi
fi
if [ ! -s id ]; then
  found=$(squeue -h -a -t all -o %A "--name=$name") || exit
  batch=batch.sh
  if [ -z "$found" ] && [ ! -e began ]; then
"""
    + _DEPEND
    + """  fi
  [ -z "$found" ] || { printf '%s\\n' "$found" | sed 's/;.*//;q' >id.new && mv id.new id; }
fi
cat id
"""
)
"""Submits a run once: under a lock that ends with its process, after a check whether Slurm already
has a job of that name, or of the array that it was to be a task of."""

ARRAY = (
    """base=$1 group=$2
shift 2
umask 077
mkdir -p "$base/arrays/$group" || exit 4
batch=$base/arrays/$group/batch.sh
cat >"$batch"
exec 8>"$base/arrays/$group/lock"
flock -w 60 8 || exit 75
cd "$base/runs/$1" || exit 4
runs=$* task=0
for run; do
  printf '%s %s\\n' "$group" "$task" >"../$run/array" || exit 4
  task=$((task + 1))
done
"""
    + _DEPEND
    + """found=$(printf '%s\\n' "$found" | sed 's/;.*//;q')
task=0
for run in $runs; do
  printf '%s_%s' "$found" "$task" >"../$run/id"
  task=$((task + 1))
done
printf %s "$found"
"""
)
"""Submits several runs as one array with a new name. Each run notes its array first, so that it is
found if this script ends in between."""

REST = 'tail -c "+$2" -- "$1/log"'
"""Prints a log from a byte on."""

TAIL = 'tail -c "$2" -- "$1/log"'
"""Prints the last bytes of a log."""

FOLLOW = """cd "$1" || exit 4
timeout 300 tail -c "+$2" -f log &
tail=$!
while [ ! -e exit ] && kill -0 "$tail" 2>/dev/null; do sleep 0.5; done
sleep 0.5
kill "$tail" 2>/dev/null
wait "$tail"
exit 0
"""
"""Prints a log as it grows, until the run has ended, and for five minutes at most, so that it ends
by itself when its console is gone."""

CANCEL = 'scancel "--jobname=$2" "$1"'
KILL = 'scancel --signal=KILL --full "--jobname=$2" "$1"'
"""The name guards against a number that has become another job's."""

REMOVE = """cd "$1" 2>/dev/null || exit 0
cd ..
if [ -s "$2/id" ] && [ ! -e "$2/exit" ]; then
  name=$2
  [ ! -e "$2/array" ] || read -r name task <"$2/array"
  scancel "--jobname=$name" "$(head -c 40 "$2/id")" 2>/dev/null
fi
rm -rf -- "$2"
"""

OWN = """cd "$1/runs" 2>/dev/null || exit 0
grep -lxF -e "$2" -- */labels 2>/dev/null | head -n 5000
exit 0
"""

FILES = """cd "$1" 2>/dev/null || exit 0
most=$2
set --
for file in * .[!.]*; do
  [ -f "$file" ] && [ ! -L "$file" ] && set -- "$@" "$file"
done
[ "$#" -eq 0 ] || tar -cf - -- "$@" | head -c "$most"
"""
"""Prints the files of a folder as a tar archive, cut after so many bytes."""

TIDY = """cd "$1/arrays" 2>/dev/null && for group in *; do
  [ ! -d "$group" ] || grep -qs "^$group " ../runs/*/array || rm -rf -- "$group"
done
exit 0
"""
