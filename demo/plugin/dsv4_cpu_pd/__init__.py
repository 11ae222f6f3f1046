"""What SGLang 0.5.23 lacks to run a prefill/decode pair on --device cpu. See docs/demo.md."""
