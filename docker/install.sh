#!/bin/sh
# Load the image of this bundle into the host's Docker Engine, after checking every file: ./install.sh
set -eu
cd "$(dirname "$0")"
sha256sum --quiet -c SHA256SUMS || { echo "install: a file differs from SHA256SUMS; copy the bundle again" >&2; exit 1; }
docker info >/dev/null 2>&1 || { echo "install: no Docker Engine answers; start it, or run as a user who may use it" >&2; exit 1; }
docker load -q -i image.tar
image=$(cat image-name)
found=$(docker image inspect --format '{{.Id}}' "$image")
[ "$found" = "$(cat image-id)" ] || { echo "install: $image has id $found, expected $(cat image-id)" >&2; exit 1; }
[ -f .env ] || sed "s|^#\{0,1\}DSV4_IMAGE=.*|DSV4_IMAGE=$image|" .env.example >.env
echo "loaded $image"
echo "next:  docker run --rm --gpus all $image doctor  &&  docker compose up -d --wait"
