# --- image ------------------------------------------------------------------------------------------------------
# IMAGE is the full name, registry included where there is one: make image push IMAGE=registry.example/dsv4-pd:0.1.0
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' entrypoint/pyproject.toml)
IMAGE ?= dsv4-pd:$(VERSION)
# all: the engine's own kernels are compiled too, about ten minutes on two cores; own: for a build that only has to run
BAKE ?= all
SOURCE ?= $(shell git config --get remote.origin.url 2>/dev/null | sed -E 's#^git@([^:]+):#https://\1/#; s#//[^/@]*@#//#; s#\.git$$##' | grep -E '^https?://' || true)
BUILD_INPUTS := build/image-inputs
BUILD_ARGS = --build-arg VERSION=$(VERSION) --build-arg BAKE=$(BAKE) \
  --build-arg REVISION=$(shell git rev-parse HEAD 2>/dev/null || echo unknown)$(shell git diff --quiet HEAD 2>/dev/null || echo -dirty) \
  --build-arg CREATED=$(shell git log -1 --format=%cI 2>/dev/null || echo 1970-01-01T00:00:00Z) \
  --build-arg SOURCE=$(SOURCE) \
  --build-arg SGLANG=$(shell sed -n 's/^sglang==//p' docker/engine.in) \
  --build-arg ROUTER=$(shell sed -n 's/^sglang-router==\([^ ;]*\).*/\1/p' docker/router.lock) \
  --build-arg CUDA=$(shell sed -n 's/^nvidia-cuda-nvcc==\(.*\)\.\*$$/\1/p' docker/engine.in) \
  --build-arg COMPOSE_VERSION=$(shell cat docker/compose-version) \
  --build-arg BASE_DIGEST=$(shell docker image inspect --format '{{join .RepoDigests ","}}' debian:bookworm-slim 2>/dev/null | sed -n 's/.*@\(sha256:[0-9a-f]*\).*/\1/p') \
  --secret id=ca,src=$(BUILD_INPUTS)/ca --secret id=index,src=$(BUILD_INPUTS)/index

# BuildKit attests to a build only where the engine keeps images in containerd's store; elsewhere it refuses to try. Its own
# bill of materials would pull a scanner, so that one is ours (docker/sbom.py).
ATTEST = $(shell docker info --format '{{.DriverStatus}}' 2>/dev/null | grep -q io.containerd.snapshotter && echo --provenance=mode=max)

docker-engine: ## Have a Docker Engine: the one that answers, or one installed here (Debian 12, root)
	@docker/engine-on-debian.sh start

image: docker-engine ## Build the image and print its size by layer
	@PYTHON="$(PYTHON)" docker/build-inputs.sh $(BUILD_INPUTS)
	docker build $(BUILD_ARGS) $(ATTEST) -t $(IMAGE) $(ARGS) .
	@docker/layers.sh $(IMAGE)

# The build can't see a folder that this machine's pip knows; the wheel goes in as a build context of its own.
CPU_TORCH = $(PYTHON) -m pip download -q --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
  --python-version 3.11 --platform manylinux_2_28_x86_64 -d $(BUILD_INPUTS)/wheels -r docker/engine-cpu-torch.lock
NO_CPU_TORCH = torch: found no CPU build of it, expected the one that docker/engine-cpu-torch.lock names; \
set PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu, or PIP_FIND_LINKS to a folder that has it

image-demo: docker-engine ## Build the slim image of the demo, IMAGE-demo: the CPU engine, no CUDA, at most 2.5 GB
	@PYTHON="$(PYTHON)" docker/build-inputs.sh $(BUILD_INPUTS)
	@mkdir -p $(BUILD_INPUTS)/wheels
	@$(CPU_TORCH) || { echo "$(NO_CPU_TORCH)" >&2; exit 2; }
	docker build $(BUILD_ARGS) --build-arg FLAVOUR=engine-cpu --build-arg BAKE=none --build-arg CUDA=none \
	  --build-context wheels=$(BUILD_INPUTS)/wheels $(ATTEST) -t $(IMAGE)-demo $(ARGS) .
	@docker/layers.sh $(IMAGE)-demo 2500000000

push: ## Push the image to the registry in IMAGE and print its digest
	@docker/push.sh $(IMAGE)

bundle: ## Pack the release into dist/: image, ids, provenance, bill of materials, compose.yaml, installer
	@docker/bundle.sh $(IMAGE) dist

test-image: $(VENVS)/dev/.done ## Test the image on the Docker Engine (make image first)
	TEST_IMAGE=$(IMAGE) $(PYTEST) -m docker tests/image $(ARGS)

lock-engine: ## Resolve the engine's lock and the build tools' lock again
	@docker/lock.sh "$(PYTHON)"

.PHONY: docker-engine image image-demo push bundle test-image lock-engine
