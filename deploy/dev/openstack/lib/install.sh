# Installs what the rig runs on, below $INSTALL: Python packages in a virtual environment named after the pins, and MariaDB,
# unpacked from the distribution's packages. Nothing is installed in the system. Sourced by `up`.
# shellcheck shell=bash
UV_VERSION=0.13.7

find_python() {
  local c
  for c in ${REGENT_OPENSTACK_PYTHON:+"$REGENT_OPENSTACK_PYTHON"} python3.11 python3.12 python3.13 python3 /usr/bin/python3 \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[1-9]*/bin/python3 /usr/local/bin/python3; do
    "$c" -c 'import sys, venv, ensurepip; print(sys.executable); sys.exit(sys.version_info[:2] < (3, 11))' 2>/dev/null && return 0
  done
  return 1
}

install_python() {
  if [ -e "$VENV/complete" ] && "$B/python" -c '' 2>/dev/null; then
    touch "$VENV/complete"
    return 0
  fi
  local py log=$INSTALL/log/python.log index args=()
  py=$(find_python | tail -n 1) && [ -n "$py" ] || die "Python 3.11 or newer with venv is needed (REGENT_OPENSTACK_PYTHON names one)"
  stage "installing Python packages ($("$py" -V 2>&1))"
  rm -rf "$VENV"
  "$py" -m venv "$VENV" >"$log" 2>&1 || die "python -m venv" "$log"
  "$B/python" -m pip install -q "uv==$UV_VERSION" >>"$log" 2>&1 || die "pip install uv" "$log"
  # uv does not read pip's settings
  index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$("$B/python" -m pip config get global.index-url 2>/dev/null || true)}}
  [ -z "$index" ] || args+=(--default-index "$index")
  SSL_CERT_FILE=${SSL_CERT_FILE:-${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}} UV_CACHE_DIR=${UV_CACHE_DIR:-$INSTALL/uv} \
    "$B/uv" pip install --no-deps --compile-bytecode "${args[@]}" --python "$B/python" -r "$LIB/constraints.txt" \
    >>"$log" 2>&1 || die "installation of the Python packages" "$log"
  touch "$VENV/complete"
  # Other checkouts have other pins, and clouds that run on them: only what nobody has brought up for long goes.
  local old
  find "$INSTALL" -maxdepth 2 -path "$INSTALL/venv-*/complete" -mtime +14 -print | while read -r old; do rm -rf "$(dirname "$old")"; done
}

# Our own package lists, so that no root is needed to refresh them.
private_apt() {
  local a=$INSTALL/apt
  mkdir -p "$a/state/lists/partial" "$a/cache/archives/partial"
  apt-get -o Dir::State="$a/state" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$a/cache" \
    -o APT::Sandbox::User="$(id -un)" "$@"
}

fetch_packages() {
  apt-get download "$@" && return 0
  [ -d "$INSTALL/apt/state/lists" ] || private_apt update
  private_apt download "$@"
}

# The packages that hold the libraries which mariadbd misses here.
missing_libraries() {
  LD_LIBRARY_PATH=$(mariadb_libraries "$1") ldd "$1/usr/sbin/mariadbd" "$1/usr/bin/mariadb" 2>/dev/null | awk '/not found/ { print $1 }' | sort -u
}
mariadb_libraries() { local l; for l in "$1"/usr/lib/*-linux-gnu "$1"/lib/*-linux-gnu; do printf '%s:' "$l"; done; }

install_mariadb() {
  [ ! -e "$MARIADB/complete" ] || return 0
  local log=$INSTALL/log/mariadb-packages.log t=$INSTALL/mariadb.tmp lib name
  stage "unpacking MariaDB"
  rm -rf "$MARIADB" "$t"
  mkdir -p "$t/packages"
  : >"$log"
  unpack() {
    local f
    for f in "$t"/packages/*.deb; do dpkg-deb -x "$f" "$t" && rm -f "$f"; done
  }
  (cd "$t/packages" && fetch_packages mariadb-server-core mariadb-client-core mariadb-common) >>"$log" 2>&1 || die "download of the MariaDB packages" "$log"
  unpack >>"$log" 2>&1 || die "unpacking of the MariaDB packages" "$log"
  for lib in $(missing_libraries "$t"); do
    # libaio.so.1 is in libaio1, or libaio1t64
    name=$(sed 's/\.so\.\([0-9]*\).*/\1/; s/\.so$//' <<<"$lib")
    (cd "$t/packages" && { fetch_packages "$name" || fetch_packages "${name}t64" || fetch_packages "${name}v5"; }) >>"$log" 2>&1 \
      || die "MariaDB needs the library $lib: install it" "$log"
    unpack >>"$log" 2>&1 || die "unpacking of $name" "$log"
  done
  rmdir "$t/packages"
  touch "$t/complete"
  mv "$t" "$MARIADB"
  rm -rf "$INSTALL/apt"
}

install_all() {
  mkdir -p "$INSTALL/log"
  # folders may share an installation
  exec 8>"$INSTALL/install.lock"
  flock -w 1800 8 || die "another installation does not come to an end"
  install_python
  install_mariadb
  stage_end
  exec 8>&-
}
