#!/usr/bin/env bash
# Pack everything that a host without a registry needs into one folder: bundle.sh IMAGE FOLDER
# The image as a tar, compose.yaml with its files, checksums, and install.sh, which checks and loads them.
set -euo pipefail
image=$1 folder=$2
cd "$(dirname "$0")/.."
name=$(basename "${image%:*}")-${image##*:}
target=$folder/$name
mkdir -p "$target/config"
cp compose.yaml compose.gpus.yaml .env.example LICENSE "$target/"
cp -r config/monitoring "$target/config/"
install -m 755 docker/install.sh "$target/install.sh"
echo "$image" >"$target/image-name"
docker image inspect --format '{{.Id}}' "$image" >"$target/image-id"
docker save "$image" -o "$target/image.tar"
# shellcheck disable=SC2094  # the list leaves itself out
(cd "$target" && find . -type f ! -name SHA256SUMS -print0 | sort -z | xargs -0 sha256sum >SHA256SUMS)
echo "$target"
