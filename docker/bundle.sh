#!/usr/bin/env bash
# Pack a release into one folder: bundle.sh IMAGE FOLDER
# The image as a tar with its ids, digests, bill of materials and provenance, compose.yaml with its files, checksums, and
# install.sh, which checks and loads them. Where a registry has the image, the folder does without image.tar.
set -euo pipefail
image=$1 folder=$2
cd "$(dirname "$0")/.."
name=$(basename "${image%:*}")-${image##*:}
target=$folder/$name
mkdir -p "$target/config"
rm -f "$target"/SHA256SUMS* "$target"/sbom.cdx.json "$target"/provenance*.json
cp compose.yaml compose.gpus.yaml .env.example LICENSE "$target/"
cp -r config/monitoring "$target/config/"
install -m 755 docker/install.sh docker/verify.sh "$target/"
echo "$image" >"$target/image-name"
docker image inspect --format '{{join .RepoDigests "\n"}}' "$image" | sed '/^$/d' >"$target/image-digests"
docker save "$image" -o "$target/image.tar"

container=$(docker create "$image" none)
docker cp "$container:/opt/dsv4-pd/sbom.cdx.json" "$target/sbom.cdx.json" >/dev/null 2>&1 ||
    echo "bundle: $image has no /opt/dsv4-pd/sbom.cdx.json, so this folder can't be signed" >&2
docker rm "$container" >/dev/null
python3 docker/provenance.py ids "$target/image.tar" >"$target/image-id"
python3 docker/provenance.py write "$image" "$target" ||
    echo "bundle: no provenance, so this folder can't be signed" >&2
# shellcheck disable=SC2094  # the list leaves itself out
(cd "$target" && find . -type f ! -path ./SHA256SUMS ! -path ./.env -print0 | sort -z | xargs -0 sha256sum >SHA256SUMS)
echo "$target"
