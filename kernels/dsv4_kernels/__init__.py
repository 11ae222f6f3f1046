"""Triton kernels for DeepSeek-V4-Flash and the SGLang plugin that installs them."""

__version__ = "0.1.0"
