#!/usr/bin/env bash
# A real Docker Engine on a bare Debian 12 machine (root), with nothing pulled from an image registry.
#
#   docker/engine-on-debian.sh start   install, start dockerd, import debian:bookworm-slim (idempotent)
#   docker/engine-on-debian.sh stop    end the dockerd that `start` started
#   docker/engine-on-debian.sh path    print a PATH that finds dockerd, docker and docker-registry
#   docker/engine-on-debian.sh wipe    stop, and remove every image, layer and cache it kept
#
# Debian 12's own engine (20.10) knows no `start_interval`, so the programs come from Debian 13, unpacked into a
# folder of their own: all but runc run on Debian 12's libc. Of Podman only the generator of units is used, by a test.
# Mirror and keyring are the machine's own.
set -euo pipefail

ROOT=${DOCKER_ENGINE_ROOT:-/var/lib/dsv4-docker}
readonly ROOT
readonly BIN=$ROOT/unpacked/usr/bin PLUGINS=$ROOT/unpacked/usr/libexec/docker/cli-plugins
readonly DATA=$ROOT/data RUN=$ROOT/run LOG=$ROOT/dockerd.log
readonly HOST_PACKAGES=(iptables runc debootstrap ca-certificates)
readonly UNPACKED_PACKAGES=(docker.io docker-cli docker-compose docker-buildx containerd docker-registry podman)
readonly BASE_IMAGE=debian:bookworm-slim
export PATH=$BIN:$ROOT/unpacked/usr/sbin:/usr/sbin:/sbin:$PATH

say() { printf 'engine-on-debian: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# The first http(s) mirror that serves Debian itself, from deb822 or one-line sources.
mirror() {
    sed -nE 's/^(URIs:|deb (\[[^]]*\] )?) *(https?:[^ ]*\/debian)\/?( .*)?$/\3/p' \
        /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list 2>/dev/null | head -n 1 || true
}

install_host_packages() {
    local missing=() name
    for name in "${HOST_PACKAGES[@]}"; do
        dpkg -s "$name" >/dev/null 2>&1 || missing+=("$name")
    done
    ((${#missing[@]} == 0)) && return
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# A second apt configuration: its own source list, lists and cache, so that the machine's stays as it was.
apt_trixie() {
    apt-get -q -o Dir::Etc::SourceList="$ROOT/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$ROOT/apt/lists" -o Dir::Cache="$ROOT/apt/cache" -o APT::Sandbox::User=root "$@"
}

unpack_engine() {
    [[ -x $ROOT/unpacked/usr/sbin/dockerd && -x $PLUGINS/docker-compose && -x $PLUGINS/docker-buildx && -x $BIN/docker-registry
        && -x $ROOT/unpacked/usr/libexec/podman/quadlet ]] && return
    local url; url=$(mirror)
    [[ -n $url ]] || fail "no Debian mirror found in /etc/apt; expected one 'URIs:' or 'deb' line; add the machine's mirror there"
    mkdir -p "$ROOT"/apt/{lists,cache/archives}/partial "$ROOT/unpacked"
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s trixie main\n' "$url" >"$ROOT/apt/sources.list"
    apt_trixie update
    (cd "$ROOT/apt" && apt_trixie download "${UNPACKED_PACKAGES[@]}")
    for deb in "$ROOT"/apt/*.deb; do dpkg -x "$deb" "$ROOT/unpacked"; done
    rm -rf "$ROOT"/apt/*.deb "$ROOT/apt/lists" "$ROOT/apt/cache"
    dockerd --version >&2
}

link_plugins() {
    local folder=${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins plugin
    # A client that the machine has already stays.
    [[ -e /usr/local/bin/docker ]] || ln -s "$BIN/docker" /usr/local/bin/docker
    mkdir -p "$folder"
    for plugin in docker-compose docker-buildx; do ln -sf "$PLUGINS/$plugin" "$folder/$plugin"; done
}

# The daemon outlives its caller: a lock or a pipe of the caller's that it kept open would be held forever.
close_inherited() {
    local each
    for each in /proc/"$BASHPID"/fd/*; do
        each=${each##*/}
        ((each <= 2)) || eval "exec $each>&-"
    done
}

start_daemon() {
    mkdir -p "$DATA" "$RUN"
    # containerd's socket path must stay short (108 bytes), so the exec root lies where the daemon's own does.
    (
        close_inherited
        exec setsid nohup dockerd --data-root "$DATA" --pidfile "$RUN/dockerd.pid" --log-level warn
    ) >>"$LOG" 2>&1 </dev/null &
    local tries
    for ((tries = 0; tries < 60; tries++)); do
        docker info >/dev/null 2>&1 && return
        sleep 1
    done
    tail -n 20 "$LOG" >&2
    fail "dockerd did not answer within 60 s; its log is $LOG"
}

# No registry: the base image is what debootstrap makes of the same mirror, under its usual name.
import_base() {
    docker image inspect "$BASE_IMAGE" >/dev/null 2>&1 && return
    local tree=$ROOT/bookworm url; url=$(mirror)
    rm -rf "$tree"
    debootstrap --variant=minbase bookworm "$tree" "$url" >"$ROOT/debootstrap.log" 2>&1 ||
        { tail -n 20 "$ROOT/debootstrap.log" >&2; fail "debootstrap failed; its log is $ROOT/debootstrap.log"; }
    slim "$tree"
    copy_sources "$tree"
    tar -C "$tree" --numeric-owner -c . | docker import -c 'CMD ["bash"]' - "$BASE_IMAGE" >&2
    rm -rf "$tree"
    docker run --rm "$BASE_IMAGE" grep -q 'VERSION_CODENAME=bookworm' /etc/os-release
}

# What the published slim images leave out too.
slim() {
    rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/usr/share/{man,info,locale}/* "$1"/var/log/*.log
    find "$1/usr/share/doc" -type f ! -name copyright -delete
    printf 'path-exclude /usr/share/doc/*\npath-include /usr/share/doc/*/copyright\npath-exclude /usr/share/man/*\npath-exclude /usr/share/locale/*\n' \
        >"$1/etc/dpkg/dpkg.cfg.d/slim"
    printf 'APT::Keep-Downloaded-Packages "false";\n' >"$1/etc/apt/apt.conf.d/slim"
}

# debootstrap writes only the main suite; security fixes come from the machine's own list of them.
copy_sources() {
    local file
    for file in /etc/apt/sources.list.d/*.sources /etc/apt/sources.list; do
        if [[ -f $file ]] && grep -q bookworm-security "$file"; then
            rm -f "$1/etc/apt/sources.list"
            cp "$file" "$1/etc/apt/sources.list.d/"
            return
        fi
    done
}

start() {
    if docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1; then
        say "a Docker Engine already answers: $(docker info --format '{{.ServerVersion}}')"
    else
        ((EUID == 0)) || fail "no Docker Engine answers and this user is $(id -un); run as root to have one installed"
        install_host_packages
        unpack_engine
        link_plugins
        docker info >/dev/null 2>&1 || start_daemon
        say "started Docker Engine $(docker info --format '{{.ServerVersion}}'), data in $DATA"
    fi
    docker image inspect "$BASE_IMAGE" >/dev/null 2>&1 || docker pull -q "$BASE_IMAGE" >/dev/null 2>&1 || {
        install_host_packages
        import_base
    }
}

stop() {
    local pid; pid=$(cat "$RUN/dockerd.pid" 2>/dev/null) || { say 'nothing to stop'; return; }
    kill "$pid" 2>/dev/null || true
    local tries
    for ((tries = 0; tries < 30; tries++)); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 1
    done
    fail "dockerd ($pid) did not end within 30 s"
}

wipe() {
    stop
    grep -o "$ROOT/data[^ ]*" /proc/mounts | sort -r | xargs -r umount -l
    rm -rf "$DATA" "$RUN"
}

case ${1:-} in
start) start ;;
stop) stop ;;
wipe) wipe ;;
path) printf '%s\n' "$PATH" ;;
*) sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
