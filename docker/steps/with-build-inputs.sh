#!/bin/sh
# Run a command of the image build with the building machine's CA bundle and package index, where it handed them
# in as build secrets (docker/build-inputs.sh). Nothing of either stays in a layer.
set -eu
if [ -s /run/secrets/ca ]; then
    export SSL_CERT_FILE=/run/secrets/ca PIP_CERT=/run/secrets/ca
fi
if [ -s /run/secrets/index ]; then
    set -a
    . /run/secrets/index
    set +a
fi
exec "$@"
