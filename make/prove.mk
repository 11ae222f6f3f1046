# Certify and measure the demo on this machine; pictures and reports land in .artefacts/.

prove: $(VENVS)/dev/.done engine ## Certify the demo, break it in many ways, scrape it, look at its page (about 5 minutes)
	$(PYTEST) -m "pair or browser" tests/prove tests/front $(ARGS)

bench-demo: $(VENVS)/appliance/.done engine ## Interference on the CPU: the pair against a single server, as a report
	@mkdir -p .artefacts
	DSV4_PROFILE=demo-cpu $(VENVS)/appliance/bin/dsv4-pd bench layouts --streams 2 --stream-output 3000 \
	  --prompts 4 --prompt-tokens 3000 --quiet 2 --out .artefacts/layouts.jsonl

.PHONY: prove bench-demo
