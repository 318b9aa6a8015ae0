# What `up`, `down` and `verify` share: where things are, how processes are started, found and stopped.
# shellcheck shell=bash disable=SC2034
LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
HERE=$(dirname "$LIB")
INSTALL=${REGENT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/regent}/openstack
D=${REGENT_OPENSTACK_DIR:-$INSTALL}
PINS=$(sha256sum <"$LIB/constraints.txt" | cut -c1-12)
VENV=$INSTALL/venv-$PINS
B=$VENV/bin
MARIADB=$INSTALL/mariadb
SERVICES="keystone placement glance neutron nova cinder octavia"
CLOUDS=$D/clouds.yaml
# Nobody else's cloud is to be mixed up with this one.
for v in $(compgen -e OS_); do unset "$v"; done
# What the packages cache goes with the rest.
export PYTHONWARNINGS=ignore XDG_CACHE_HOME=$D/cache

now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'; }

# One line per stage, with its time once it is over.
BEGAN=$(now) STAGE="" STAGE_BEGAN=0
stage() {
  stage_end
  STAGE=$* STAGE_BEGAN=$(now)
  printf '  %-66s' "$*"
}
stage_end() {
  [ -z "$STAGE" ] || printf '%6s s\n' "$(since "$STAGE_BEGAN")"
  STAGE=""
}
# die MESSAGE [LOG]: says what failed, shows the end of its log, and ends.
die() {
  [ -z "$STAGE" ] || printf 'FAILED\n'
  STAGE=""
  {
    echo
    echo "FAILED: $1"
    if [ -n "${2:-}" ] && [ -s "$2" ]; then
      echo "The end of $2:"
      tail -n 25 "$2" | cut -c1-400 | sed 's/^/  | /'
    fi
  } >&2
  exit 1
}

# Whether the process of a pid file runs, and its number in PID. Not when it is a zombie (that has no command line) or somebody
# else's by now.
alive() {
  local words
  PID=""
  { read -r PID <"$D/run/$1.pid" && mapfile -d '' -t words <"/proc/$PID/cmdline"; } 2>/dev/null || return 1
  [[ "${words[*]}" == *"$D/"* ]]
}

# stop SECONDS NAME…: all at once; whoever is still there after that long is killed.
stop() {
  local patience=$1 n left="" signal=TERM end
  shift
  for n in "$@"; do
    if alive "$n"; then
      kill -TERM "$PID" 2>/dev/null || true
      left+=" $n"
    fi
  done
  end=$((SECONDS + patience))
  while [ -n "$left" ]; do
    local still=""
    for n in $left; do
      alive "$n" || continue
      still+=" $n"
      if [ $SECONDS -ge $end ]; then
        [ "$signal" = KILL ] || echo "(killing what does not end by itself:$left)"
        signal=KILL
        kill -KILL "$PID" 2>/dev/null || true
      fi
    done
    left=$still
    [ -z "$left" ] || sleep 0.1
  done
  for n in "$@"; do rm -f "$D/run/$n.pid" "$D/run/$n.mark"; done
}
# shellcheck disable=SC2086
stop_services() { stop 10 $SERVICES; }
stop_database() { stop 60 mariadb; }

# One `up` or `down` at a time on one folder; the next one waits for it.
take_lock() {
  mkdir -p "$D/run"
  exec 9>"$D/run/lock"
  flock -n 9 && return 0
  echo "another up or down is at work in $D: waiting for it"
  flock -w 900 9 || die "it does not come to an end"
}
