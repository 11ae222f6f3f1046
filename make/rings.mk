# The rings that take longer than a person waits. CI runs each as a step of its own; `test-all` is all of them.
CHAOS_FAULTS ?= 8

test-all: test test-slow test-kernels test-recovery test-attacks test-link test-api prove image test-image ## Every ring; more than an hour on two cores
	$(MAKE) chaos FAULTS=$(CHAOS_FAULTS)

test-slow: $(VENVS)/dev/.done
	$(PYTEST) -n 2 -m "slow and not engine and not pair and not docker and not browser" $(ARGS)

test-recovery: $(VENVS)/dev/.done engine ## Kill, stop and break the real pair
	$(PYTEST) -m pair tests/pair/test_recovery.py $(ARGS)

test-attacks: $(VENVS)/dev/.done engine ## Attack the real pair: who listens, what counts as proof, fatal lines in requests
	$(PYTEST) -m "pair and not long" tests/pair --ignore=tests/pair/test_appliance.py --ignore=tests/pair/test_recovery.py $(ARGS)

test-link: $(VENVS)/dev/.done engine ## Cut the KV link of the real pair with a packet filter, with both routers (needs root)
	$(PYTEST) -m long tests/pair $(ARGS)

test-api: $(VENVS)/dev/.done engine ## Send every field of the API to the real pair, through both routers
	$(PYTEST) -m pair tests/api $(ARGS)

.PHONY: test-all test-slow test-recovery test-attacks test-link test-api
