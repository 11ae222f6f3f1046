# Kernels: Triton's interpreter and the sm_120 compiler, on a machine without a GPU; then the plugin in SGLang's loader.

$(VENVS)/kernels/.done: docker/kernels-test.lock docker/engine-cpu-torch.lock make/kernels.sh
	@make/kernels.sh "$(PYTHON)" $(VENVS)/kernels
	@touch $@

test-kernels: $(VENVS)/kernels/.done $(VENVS)/dev/.done engine ## Kernels: references, interpreter, sm_120 compile report, the plugin in the engine (about 3 minutes)
	PYTHONPATH=kernels:hooks $(VENVS)/kernels/bin/python -m pytest -o addopts="-ra --strict-markers --import-mode=importlib" \
	  -o asyncio_mode= -o asyncio_default_fixture_loop_scope= -W ignore::pytest.PytestConfigWarning -m "not engine" \
	  tests/kernels $(ARGS)
	$(PYTEST) -m engine tests/kernels $(ARGS)

.PHONY: test-kernels
