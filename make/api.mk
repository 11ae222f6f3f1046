# The conformance run of the API: against the real pair, through both routers.
api: $(VENVS)/dev/.done engine ## Send every field of the API to the real pair and rewrite docs/api.md
	API_RECORD=1 $(PYTEST) tests/api/test_conformance.py $(ARGS)

beside: $(VENVS)/dev/.done engine ## Time small requests beside prompts of 20 MB, through both routers
	$(PYTEST) -s -m pair tests/api/test_cost.py $(ARGS)

.PHONY: api beside
