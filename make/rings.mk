# The rings that take longer than a person waits. CI runs each as a step of its own; `test-all` is all of them.
CHAOS_FAULTS ?= 8

test-all: test test-slow test-kernels test-recovery test-api prove image test-image ## Every ring; about 40 minutes on two cores
	$(MAKE) chaos FAULTS=$(CHAOS_FAULTS)

test-slow: $(VENVS)/dev/.done
	$(PYTEST) -n 2 -m "slow and not engine and not pair and not docker and not browser" $(ARGS)

test-recovery: $(VENVS)/dev/.done engine ## Kill, stop and break the real pair
	$(PYTEST) -m pair tests/pair --ignore=tests/pair/test_appliance.py $(ARGS)

test-api: $(VENVS)/dev/.done engine ## Send every field of the API to the real pair, through both routers
	$(PYTEST) -m pair tests/api $(ARGS)

.PHONY: test-all test-slow test-recovery test-api
