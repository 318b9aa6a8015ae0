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
export PYTHONWARNINGS=ignore

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

# The process of a pid file; nothing when it has ended, is a zombie, or is somebody else's by now.
pid_of() {
  local p
  p=$(cat "$D/run/$1.pid" 2>/dev/null) && [ -n "$p" ] || return 1
  # a zombie has no command line
  tr '\0' ' ' 2>/dev/null <"/proc/$p/cmdline" | grep -qF "$D/" || return 1
  echo "$p"
}
alive() { pid_of "$1" >/dev/null; }

# stop SECONDS NAME…: all at once; whoever is still there after that long is killed.
stop() {
  local patience=$1 n p end running=""
  shift
  for n in "$@"; do
    if p=$(pid_of "$n"); then
      kill -TERM "$p" 2>/dev/null || true
      running+=" $n"
    fi
  done
  end=$((SECONDS + patience))
  while [ -n "$running" ]; do
    local left=""
    for n in $running; do if alive "$n"; then left+=" $n"; fi; done
    running=$left
    [ -n "$running" ] || break
    if [ $SECONDS -ge $end ]; then
      for n in $running; do if p=$(pid_of "$n"); then kill -KILL "$p" 2>/dev/null || true; fi; done
    fi
    sleep 0.05
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
