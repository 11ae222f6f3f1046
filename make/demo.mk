# The demo's engine and the routers: environments of their own, from hashed locks.

engine: ## Set up SGLang for the CPU and both routers (about 2 GB; says what it downloads)
	@"$(PYTHON)" demo/setup_engine.py --venvs $(VENVS) engine router smg

.PHONY: engine
