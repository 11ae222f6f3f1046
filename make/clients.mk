# Real clients against the demo, each in an environment of its own, from a hashed lock of its own.
ALL_CLIENTS := $(sort $(basename $(notdir $(wildcard tests/clients/scripts/*_python.py tests/clients/scripts/*_npm.mjs))))
SHORT_CLIENTS := anthropic_python langchain_python litellm_python openai_python
CLIENTS ?= $(ALL_CLIENTS)
CLIENTS_RUN = cd tests && $(abspath $(DEV))/python -m clients

$(VENVS)/clients/%/.done: tests/clients/locks/%.lock make/clients.sh $(VENVS)/kit/.done
	@make/clients.sh install "$(PYTHON)" $(VENVS)/kit/bin/uv $(@D) $<
	@touch $@

$(VENVS)/clients/%/.done: tests/clients/locks/%/package-lock.json make/clients.sh $(VENVS)/kit/.done
	@make/clients.sh install "$(PYTHON)" $(VENVS)/kit/bin/uv $(@D) $<
	@touch $@

test-clients: $(VENVS)/dev/.done $(CLIENTS:%=$(VENVS)/clients/%/.done) engine ## Real clients against the demo: all, or CLIENTS="codex_npm …"; ARGS=--write: docs/clients.md too
	$(CLIENTS_RUN) $(CLIENTS) $(ARGS)

test-clients-short: $(VENVS)/dev/.done $(SHORT_CLIENTS:%=$(VENVS)/clients/%/.done) engine ## Four libraries of them, which bring no other programs
	$(CLIENTS_RUN) $(SHORT_CLIENTS) $(ARGS)

lock-clients: $(VENVS)/kit/.done ## Resolve the clients' locks again: what people install today
	@make/clients.sh lock "$(PYTHON)" $(VENVS)/kit/bin/uv

.PHONY: test-clients test-clients-short lock-clients
