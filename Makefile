# `make demo` and `make test` do all the set-up they need, in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PIP_INSTALL := .venv/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt
RUN := .venv/bin/python -m

.PHONY: demo serve test lint clean

demo: .venv/ready          ## the main job on real data: HPO names -> a linker that answers (about 10 minutes on 2 cores)
	$(RUN) ray_jobs demo

serve: .venv/ready         ## the demo's linker over HTTP, until Ctrl-C: http://127.0.0.1:8000
	$(RUN) serving --index runs/demo/index --model runs/demo/model

test: .venv/ready          ## all tests that need neither a GPU nor a person; two files at a time
	$(RUN) pytest -m "not slow" --numprocesses 2 --dist loadfile

lint: .venv/ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

clean:                     ## removes the demo's results; .venv stays
	rm -rf runs/demo

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) --editable '.[cpu,dev]'
	touch $@
