"""The door of a prefill/decode pair: requests that the pair cannot carry never enter it. See docs/api.md."""
