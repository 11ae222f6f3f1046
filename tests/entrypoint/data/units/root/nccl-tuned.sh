#!/bin/bash
# sourced by decode
export NCCL_ALGO=Ring
export SGLANG_API_KEY=${SGLANG_API_KEY:-none}
ulimit -l unlimited
