#!/bin/sh
# `dsv4-pd` inside the image, and the image's entry point: no argument serves, a command of dsv4-pd runs it, anything
# else is executed as it stands. It settles what only the image knows: the folders keyed by this image, and whether
# compose.yaml is of the same generation.
set -eu
home=/opt/dsv4-pd
cache_key=$(cat $home/cache-key)
state_key=$(cat $home/version)-$cache_key
say() { printf 'dsv4-pd: %s\n' "$*" >&2; }

# Compiled kernels and start records of another image must not be taken for ours: each image has its own folder.
# An unwritable base is left to dsv4-pd, which then falls back to a folder below /tmp.
keyed() {
    [ -d "$1" ] && [ -w "$1" ] || return 0
    printf '%s/%s' "$1" "$2"
}
others() {
    for folder in "$1"/*/; do
        [ "$folder" = "$1/*/" ] || [ "$folder" = "$1/$2/" ] || printf '%s ' "${folder%/}"
    done
}
if [ -z "${DSV4_STATE_DIR:-}" ]; then
    DSV4_STATE_DIR=$(keyed /var/lib/dsv4-pd "$state_key")
fi
if [ -z "${DSV4_CACHE_DIR:-}" ]; then
    DSV4_CACHE_DIR=$(keyed /var/cache/dsv4-pd "$cache_key")
fi
export DSV4_STATE_DIR DSV4_CACHE_DIR

[ $# -gt 0 ] || set -- serve
if ! grep -qxF -e "$1" $home/commands; then
    case $1 in
    -*) ;;
    *) command -v -- "$1" >/dev/null && exec "$@" ;;
    esac
fi

case $1 in serve | demo)
    wanted=$(cat $home/compose-version)
    if [ "${DSV4_COMPOSE_VERSION:-$wanted}" != "$wanted" ]; then
        say "compose.yaml: found version $DSV4_COMPOSE_VERSION, expected $wanted for this image ($(cat $home/version)); " \
            "take compose.yaml from the release of the image, or set DSV4_IMAGE to the release of compose.yaml"
        exit 2
    fi
    set_aside=$(others /var/lib/dsv4-pd "$state_key")$(others /var/cache/dsv4-pd "$cache_key")
    [ -z "$set_aside" ] || say "set aside, of another image: $set_aside(remove them once you will not go back)"
    ;;
esac
exec $home/venvs/appliance/bin/dsv4-pd "$@"
