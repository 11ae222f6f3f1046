# The rings that take longer than a person waits. CI runs each as a step of its own; `test-all` is all of them.
CHAOS_FAULTS ?= 8

test-all: test test-engine test-pair test-slow test-kernels test-recovery test-attacks test-link test-api prove image test-image ## Every ring; more than an hour on two cores
	$(MAKE) chaos FAULTS=$(CHAOS_FAULTS)

test-slow: $(VENVS)/dev/.done
	$(PYTEST) -n 2 -m "slow and not engine and not pair and not docker and not browser" $(ARGS)

RECOVERY := tests/pair/test_recovery.py tests/pair/test_members.py tests/pair/test_download.py

test-recovery: $(VENVS)/dev/.done engine ## Kill, stop and break the real pair, members of larger layouts, and a download
	$(PYTEST) -m "pair and not long" $(RECOVERY) $(ARGS)

test-attacks: $(VENVS)/dev/.done engine ## Attack the real pair: who listens, what counts as proof, hostile requests
	$(PYTEST) -m "pair and not long" tests/attacks tests/pair $(addprefix --ignore=,tests/pair/test_appliance.py $(RECOVERY)) $(ARGS)

test-link: $(VENVS)/dev/.done engine ## The long ones: the KV link cut by a packet filter (needs root), members of both routers
	$(PYTEST) -m long tests/attacks tests/pair $(ARGS)

test-api: $(VENVS)/dev/.done engine ## Send every field of the API to the real pair, through both routers
	$(PYTEST) -m pair tests/api $(ARGS)

.PHONY: test-all test-slow test-recovery test-attacks test-link test-api
