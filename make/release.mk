# A release, up to the push: docs/releasing.md. VERSION is what it is to be called; DRY=1 shows everything and changes nothing.
RELEASE_IMAGE = $(if $(filter file,$(origin IMAGE)),,--image $(IMAGE))

release: $(VENVS)/dev/.done ## VERSION=0.2.0: cut changelog and version, write receipt and notes, say what is left; DRY=1, RINGS=ci.log
	PYTHONPATH=tools:docs $(DEV)/python -m release $(VERSION) $(if $(RINGS),--rings $(RINGS)) $(if $(DRY),--dry) $(RELEASE_IMAGE)

BUNDLE ?= dist/$(subst :,-,$(notdir $(IMAGE)))
KEY ?=
SIGNERS ?= docker/release-signers

sign: ## KEY=~/.ssh/release: sign the folder that `make bundle` made, as hosts check it (docs/releasing.md)
	@docker/sign.sh "$(BUNDLE)" "$(KEY)" "$(SIGNERS)"

.PHONY: release sign
