# Proofs of the guard that take longer than a test.
FAULTS ?= 60
SEED ?= 1
ROUTER ?= sglang-router

chaos: $(VENVS)/dev/.done engine ## FAULTS=60 random faults (SEED=1, ROUTER=sglang-router or smg) against the real CPU pair under load
	cd tests && $(abspath $(DEV))/python -m chaos --faults $(FAULTS) --seed $(SEED) --router $(ROUTER) $(ARGS)

bench-control: $(VENVS)/dev/.done engine ## What the control plane costs, and how fast it notices
	cd tests && $(abspath $(DEV))/python -m guard.bench_control $(ARGS)

.PHONY: chaos bench-control
