# make book | test | test-all | fuzz | wheel | browser-test | notebooks | pdf | lab | class | reproduce | bench | lint | size | clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

# Modules are compiled when they are first imported, not all of them by pip: so they are, wherever this is run.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: book test test-all fuzz wheel browser-test notebooks pdf lab class reproduce bench lint lock size clean

$(STAMP): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

TESTS := -n $(JOBS) --dist loadfile --no-loadscope-reorder  # no two workers compile the same, no long file comes last
test: $(STAMP)
	$(BIN)/python -m pytest $(TESTS) -m "not slow" --ignore tests/book/test_pages.py

# With the tests that take minutes, such as that of every knob of every page, and with those of the rendered pages.
test-all: $(STAMP)
	$(BIN)/python -m pytest $(TESTS)

fuzz: $(STAMP)
	LMAP_FUZZ=50000 $(BIN)/python -m pytest tests/library/test_fuzz.py tests/library/test_hostile_calls.py tests/library/test_hostile_names.py tests/library/doors/test_damaged_models.py

book: $(STAMP)
	$(BIN)/python book/build.py

# The rendered pages in Chromium; run `make book` first. Without a browser the tests say that they are skipped.
browser-test: $(STAMP)
	$(BIN)/python -m pytest tests/book/test_pages.py -n $(JOBS) --dist worksteal -m "not slow"

# Executes every page as it is downloaded, in a folder of its own; run `make book` first.
notebooks: $(STAMP)
	$(BIN)/python book/execute_notebooks.py

pdf: book
	$(BIN)/python book/pdf.py

# The chapters as they are downloaded, in build/lab. In a container: make lab LAB="--ip 0.0.0.0 --no-browser".
lab: $(STAMP)
	$(BIN)/python book/lab.py $(ROOT) $(LAB)

# The exercises for students and for whoever teaches, as notebooks in build/class.
class: $(STAMP)
	$(BIN)/python book/classroom.py

reproduce: $(STAMP)
	$(BIN)/lmap make --all --profile full --jobs $(JOBS)

# With the build tools of the lock file, into dist/.
wheel: $(STAMP)
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w dist .

bench: $(STAMP)
	$(BIN)/python -m benchmarks.run

lint: $(STAMP)
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

# Needs the network; run it after a change of the dependencies, then check in the results. What the extras tpu, cuda and
# cluster add stands in files of their own, since nobody else is to download it.
COMPILE := $(BIN)/uv pip compile pyproject.toml --extra book --extra dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --no-annotate -q
lock: $(STAMP)
	$(COMPILE) -o requirements.lock
	for extra in tpu cuda cluster; do $(COMPILE) --extra $$extra -c requirements.lock | \
	  awk 'NR == FNR {seen[$$1]; next} /^[^ ]/ {new = !($$1 in seen)} new' requirements.lock - \
	  > requirements-$$extra.lock || exit 1; done

# Writes down how much there is to read, where it has become more for a reason.
size: $(STAMP)
	$(BIN)/python tests/size.py

clean:
	rm -rf book/_build
