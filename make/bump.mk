# Another version of the engine: what of ours it would break. docs/bump-engine.md tells the whole way.
ENGINE ?= $(VENVS)/engine/bin/python
BUMP = PYTHONPATH=tools:gate:hooks:kernels:tests $(DEV)/python -m bump

bump-check: $(VENVS)/dev/.done ## ENGINE=python, site-packages or unpacked wheel: what of ours that SGLang would break
	$(BUMP) $(ENGINE) $(ARGS)

bump-accept: $(VENVS)/dev/.done
	$(BUMP) $(VENVS)/engine/bin/python --accept

.PHONY: bump-check bump-accept
