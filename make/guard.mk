# Proofs of the guard that take longer than a test.
FAULTS ?= 60
SEED ?= 1
ROUTER ?= smg
LAYOUT ?= $(or $(DSV4_LAYOUT),pd)

chaos: $(VENVS)/dev/.done engine ## FAULTS=60 random faults (SEED=1, ROUTER=smg or sglang-router, LAYOUT=pd) against the real CPU pair under load
	cd tests && $(abspath $(DEV))/python -m chaos --faults $(FAULTS) --seed $(SEED) --router $(ROUTER) --layout $(LAYOUT) $(ARGS)

chaos-report: $(VENVS)/dev/.done ## Write what the recorded slices of chaos show into docs/health.md
	cd tests && $(abspath $(DEV))/python -m chaos.report --write

bench-control: $(VENVS)/dev/.done engine ## What the control plane costs, and how fast it notices
	cd tests && $(abspath $(DEV))/python -m guard.bench_control $(ARGS)

.PHONY: chaos chaos-report bench-control
