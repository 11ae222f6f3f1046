bench-front: $(VENVS)/dev/.done ## Measure the front on one core: chunks a second, added time to the first, memory
	cd tests && ../$(DEV)/python -m front.bench $(ARGS)

.PHONY: bench-front
