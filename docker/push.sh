#!/usr/bin/env bash
# Push an image and print the reference by digest that hosts should pull: push.sh IMAGE
set -euo pipefail
image=$1
docker push -q "$image" >/dev/null
docker image inspect --format '{{join .RepoDigests "\n"}}' "$image" | grep -F "${image%:*}@" | tail -n 1
