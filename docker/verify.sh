#!/bin/sh
# Check a release's folder before anything of it is used: verify.sh [--signers FILE | --unsigned] [FOLDER]
#
# Its signature against the keys that this host trusts, then every file against the signed list, then that nothing else lies
# there. FILE is docker/release-signers of the repository (default /etc/dsv4-pd/release-signers). A script that came with
# the folder can't vouch for itself: docs/releasing.md says what to run from elsewhere the first time. Exit 1: refused.
set -eu
namespace=dsv4-pd-release signer=dsv4-pd
signers=/etc/dsv4-pd/release-signers unsigned=no folder=

refuse() { printf 'verify: %s\n' "$*" >&2; exit 1; }

while [ $# -gt 0 ]; do
    case $1 in
    --signers) [ $# -gt 1 ] || refuse "--signers: found nothing behind it, expected a file"; signers=$2; shift 2 ;;
    --unsigned) unsigned=yes; shift ;;
    -*) refuse "found $1, expected --signers FILE, --unsigned or a folder" ;;
    *) folder=$1; shift ;;
    esac
done
case $signers in /*) ;; *) signers=$PWD/$signers ;; esac
cd "${folder:-$(dirname "$0")}"
[ -f SHA256SUMS ] || refuse "SHA256SUMS: found none in $PWD, expected the release's list of files; copy the release again"

check_signature() {
    [ -f SHA256SUMS.sig ] || refuse "SHA256SUMS.sig: found none, expected the release's signature; copy the release again," \
        "or say --unsigned for one that you built yourself"
    command -v ssh-keygen >/dev/null || refuse "ssh-keygen: found none, expected OpenSSH 8.2 or newer; apt-get install openssh-client"
    [ -f "$signers" ] || refuse "$signers: found none, expected the keys that you trust; put docker/release-signers of the" \
        "repository there, by another way than this folder came, or say --signers FILE"
    grep -Eq '^[^#[:space:]]' "$signers" || refuse "$signers: found no key in it, expected a line '$signer ... ssh-ed25519 ...'"
    said=$(ssh-keygen -Y check-novalidate -n "$namespace" -s SHA256SUMS.sig <SHA256SUMS 2>&1) ||
        refuse "SHA256SUMS: it is not what was signed ($said); copy the release again from where it is published"
    ssh-keygen -Y verify -f "$signers" -I "$signer" -n "$namespace" -s SHA256SUMS.sig <SHA256SUMS >/dev/null 2>&1 ||
        refuse "SHA256SUMS.sig: found it made with ${said##* with }, expected a key that $signers has for $signer, still valid;" \
            "don't install this unless the release's key was changed and its publisher says so elsewhere"
    echo "signed with ${said##* with }"
}

check_files() {
    # Compose reads compose.override.yaml by itself: a file that nobody signed is as bad as a changed one.
    stray=$(find . ! -type d ! -path ./SHA256SUMS ! -path ./SHA256SUMS.sig ! -path ./.env |
        awk 'NR == FNR { listed[substr($0, 67)] = 1; next } !($0 in listed)' SHA256SUMS - | head -n 3)
    [ -z "$stray" ] || refuse "$(printf '%s' "$stray" | tr '\n' ' '): found beside the release, expected only what SHA256SUMS lists; remove it"
    odd=$(find . ! -type d ! -type f | head -n 3)
    [ -z "$odd" ] || refuse "$odd: found no plain file, expected one; copy the release again"
    # Where a registry has the image, the rest of the folder is enough: the signed list of digests says which image it is.
    if [ -f image.tar ]; then sums=$(cat SHA256SUMS); else sums=$(grep -v '  \./image\.tar$' SHA256SUMS || true); fi
    said=$(printf '%s\n' "$sums" | sha256sum --quiet --strict -c - 2>&1) ||
        refuse "a file differs from SHA256SUMS or is missing ($(printf '%s' "$said" | head -n 1)); copy the release again"
}

if [ "$unsigned" = yes ]; then echo "verify: the signature is not looked at (--unsigned)" >&2; else check_signature; fi
check_files
echo "every file is as listed in $PWD/SHA256SUMS"
