#!/usr/bin/env bash
# Sign a release's folder with an SSH key: sign.sh FOLDER KEY [SIGNERS]
#
# One signature over SHA256SUMS, which names every other file: image, ids and digests, compose files, bill of materials,
# provenance. KEY is a private key, or the public half of one that ssh-agent or a security key holds. The result is checked
# as a host will check it, against SIGNERS (docker/release-signers).
set -euo pipefail
readonly NAMESPACE=dsv4-pd-release
readonly PARTS=(image-name image-id image-digests compose.yaml compose.gpus.yaml .env.example install.sh verify.sh sbom.cdx.json
    provenance.json)
here=$(dirname "$(realpath "$0")")
folder=${1:-} key=${2:-} signers=${3:-$here/release-signers}

refuse() { printf 'sign: %s\n' "$*" >&2; exit 2; }

[[ -n $folder && -f $folder/SHA256SUMS ]] || refuse "BUNDLE: found no SHA256SUMS in '$folder', expected what \`make bundle\` made; run that first"
[[ -n $key ]] || refuse 'KEY: found nothing, expected an SSH key: make sign KEY=~/.ssh/dsv4-pd-release (docs/releasing.md)'
[[ -f $key ]] || refuse "KEY: found no file $key, expected an SSH key; ssh-keygen -t ed25519 makes one (docs/releasing.md)"
command -v ssh-keygen >/dev/null || refuse 'ssh-keygen: found none, expected OpenSSH 8.2 or newer; apt-get install openssh-client'
for part in "${PARTS[@]}"; do
    grep -q "  \./${part//./\\.}\$" "$folder/SHA256SUMS" ||
        refuse "$part: found none in $folder/SHA256SUMS, expected it in a release; \`make bundle\` said why it left it out"
done
said=$("$here/verify.sh" --unsigned "$folder" 2>&1) || refuse "$(tail -n 1 <<<"${said//verify: /}")"
rm -f "$folder/SHA256SUMS.sig"
ssh-keygen -q -Y sign -f "$key" -n "$NAMESPACE" "$folder/SHA256SUMS" >&2 || refuse "KEY: ssh-keygen could not sign with $key"
if ! "$here/verify.sh" --signers "$signers" "$folder"; then
    rm -f "$folder/SHA256SUMS.sig"
    refuse "KEY: $signers does not trust $key, so no host would; put its line there in a commit of its own (docs/releasing.md)"
fi
echo "$folder/SHA256SUMS.sig"
