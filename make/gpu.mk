# Ring 2: the product with the CUDA engine on whatever NVIDIA cards are there. docs/gpu.md shows what ran where.
CARD ?= 90
PART_MB ?= 55
CUDA ?= machine
KIT := build/gpu-kit
GPU_TESTS = PYTHONPATH=tests:.

$(VENVS)/kit/.done: docker/build.lock
	@"$(PYTHON)" -m venv --clear $(VENVS)/kit
	@$(VENVS)/kit/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r docker/build.lock
	@touch $@

$(KIT)/corpus.npz: tests/gpu/model/corpus.py demo/train/corpus.py demo/train/corpus.toml | engine
	@mkdir -p $(KIT)
	$(GPU_TESTS) $(VENVS)/engine/bin/python -Wignore -m gpu.model.corpus $@

gpu-kit: $(VENVS)/kit/.done $(KIT)/corpus.npz ## Pack the engine for a GPU machine without a network: CARD=90, files of at most PART_MB=55
	"$(PYTHON)" tests/gpu/kit/pack.py $(KIT) --uv $(VENVS)/kit/bin/uv --card $(CARD) --part-mb $(PART_MB) --cuda $(CUDA) \
	  --corpus $(KIT)/corpus.npz $(if $(JIT_CACHE),--jit-cache $(JIT_CACHE))

test-gpu: $(VENVS)/dev/.done ## The ring on this machine's NVIDIA cards, part by part; needs what gpu-kit's setup.sh installs
	$(PYTEST) -m gpu tests/gpu $(ARGS)

gpu-page: ## Write docs/gpu.md from the records of every machine: tests/gpu/records/
	PYTHONPATH=tests "$(PYTHON)" -m gpu.page $(sort $(wildcard tests/gpu/records/*)) > docs/gpu.md.new
	mv docs/gpu.md.new docs/gpu.md

.PHONY: gpu-kit test-gpu gpu-page
