# Print the part of engine.lock that makes the layer below SGLang: torch with what it imports, Triton, CUDA libraries.
/^[a-z]/ {
    keep = $0 ~ /^(torch|triton|filelock|fsspec|jinja2|markupsafe|mpmath|networkx|numpy|setuptools|sympy|typing-extensions)==/ \
        || $0 ~ /^nvidia-(cublas|cuda-|cudnn-cu|cufft|cufile|curand|cusolver|cusparse|nccl|nvjitlink|nvshmem|nvtx|nvvm)/
}
keep
