"""What SGLang lacks to run a prefill/decode pair on --device cpu. See docs/demo.md."""
