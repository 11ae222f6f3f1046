"""The stub is a program, not a module: doctest collection must not import it."""

collect_ignore = ["stub.py", "bench_control.py", "fake_nvml/pynvml.py"]
