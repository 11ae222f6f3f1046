# Mutation testing: which changes of the code no test notices (docs/testing.md).
GROUPS ?=

mutants: $(VENVS)/dev/.done ## Mutate guard, gate, settings, redaction and sweep (GROUPS=...; up to 85 minutes, resumable)
	$(DEV)/python make/mutants.py $(GROUPS) --write $(ARGS)

mutants-floor: $(VENVS)/dev/.done ## A fixed share of policy's and redaction's mutants against their floors, in under 3 minutes
	$(DEV)/python make/mutants.py policy redaction --sample --budget 900 --floor

.PHONY: mutants mutants-floor
