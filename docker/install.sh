#!/bin/sh
# Install this release on a host: ./install.sh [--signers FILE | --unsigned]
#
# Checks the signature and every file (verify.sh), has the host's Docker Engine load image.tar or, where that was left out,
# pull the image by its signed digest, compares the image's id with the signed ones, and writes .env where there is none.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
fail() { printf 'install: %s\n' "$*" >&2; exit 1; }

"$folder/verify.sh" "$@" "$folder"
cd "$folder"
docker info >/dev/null 2>&1 || fail "no Docker Engine answers; start it, or run as a user who may use it"
if [ -f image.tar ]; then
    docker load -q -i image.tar
    image=$(cat image-name)
else
    image=$(head -n 1 image-digests)
    [ -n "$image" ] || fail "image.tar: found none, and no registry has this image; copy the release again, whole"
    docker pull -q "$image"
fi
# One image has several ids: an engine with containerd's image store goes by the manifest, the older kind by the configuration.
found=$(docker image inspect --format '{{.Id}}' "$image")
grep -Fxq "$found" image-id || fail "$image has id $found, expected one of: $(tr '\n' ' ' <image-id)"
if [ -f .env ]; then
    echo "kept the .env that is here, which no signature covers: set DSV4_IMAGE=$image in it"
else
    sed "s|^#\{0,1\}DSV4_IMAGE=.*|DSV4_IMAGE=$image|" .env.example >.env
fi
echo "installed $image"
echo "next:  docker run --rm --gpus all $image doctor  &&  docker compose up -d --wait"
