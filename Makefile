# Two commands do everything: `make demo` and `make test`. Both make .venv when it is not there yet.
PYTHON ?= python3
VENV_PYTHON := .venv/bin/python
INSTALL := $(VENV_PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt

# The real graphs, where they lie beside the project; tests that need them skip otherwise.
ifneq ($(wildcard ../shared/data),)
export CERTGCL_DATA ?= ../shared/data
endif

.PHONY: demo test unit audit lint docs audit-deep dist clean

demo: .venv/library
	$(VENV_PYTHON) -m certgcl demo

# One thread each, for many small problems. With COVERAGE=1 it also counts lines, and fails below the floor in pyproject.toml.
test: unit audit

unit: .venv/tests
	OMP_NUM_THREADS=1 $(VENV_PYTHON) -m pytest tests --numprocesses auto --dist loadfile $(if $(COVERAGE),--cov)

# Fails where any part of the comparison with auto_LiRPA is left out.
audit: .venv/tests
	CERTGCL_LIRPA=required OMP_NUM_THREADS=1 $(VENV_PYTHON) -m pytest verification --numprocesses auto --dist worksteal

lint: .venv/tests
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .
	$(VENV_PYTHON) -m mypy

docs: .venv/tests
	NO_MKDOCS_2_WARNING=1 $(VENV_PYTHON) -m mkdocs build --strict --site-dir site

audit-deep: .venv/tests
	CERTGCL_LIRPA=required CERTGCL_PROFILE=deep $(VENV_PYTHON) -m pytest verification

# The wheel and the source distribution: built, checked, and the wheel tried in an environment that has nothing else of the project.
dist: .venv/tests
	rm -rf dist
	$(INSTALL) build twine
	$(VENV_PYTHON) -m build --quiet
	$(VENV_PYTHON) -m twine check --strict dist/*
	$(VENV_PYTHON) .ci/check_wheel.py dist

clean:
	rm -rf .venv site dist

$(VENV_PYTHON):
	$(PYTHON) -m venv .venv

.venv/library: pyproject.toml constraints.txt | $(VENV_PYTHON)
	$(INSTALL) --editable .
	touch .venv/library

# auto_LiRPA's metadata asks for a torch of its own time, so it comes without its dependencies.
.venv/tests: .venv/library
	$(INSTALL) --editable ".[dev]"
	$(INSTALL) --no-deps auto_LiRPA==0.3
	touch .venv/tests
