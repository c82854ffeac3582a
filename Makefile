# Every target sets up what it needs; `make run` and `make test` are enough to begin with.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The broker alone; and everything, for tests and Spark.
READY := $(VENV)/.ready
INSTALLED := $(VENV)/.installed
FUZZING := $(VENV)/.fuzzing
CLUSTERED := $(VENV)/.clustered

# Options of `goqueue serve`, such as: make run ARGS="--kafka-port 9192"
ARGS ?=
# What to fuzz (all, if none is named), for how long each, and whether to keep what is found.
TARGETS ?=
SECONDS ?= 60
KEEP ?=
# Four processes on two cores: much of the suite waits for servers and clients (tests/conftest.py).
PYTEST_ARGS ?= -n 4 --dist loadscope
# Hundreds of processes load the source: where nothing compiled is kept, each compiles all of it again.
export PYTHONDONTWRITEBYTECODE :=

# Where there is apt-get and the right to use it; else the caller says what is missing.
apt_install = { SUDO=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); \
	$$SUDO apt-get install -qq -y $(1) || { $$SUDO apt-get update -qq && $$SUDO apt-get install -qq -y $(1); }; } >/dev/null 2>&1

.DEFAULT_GOAL := help
.PHONY: help setup hooks run test test-cluster test-workers lint format bench kafka-tools removed-checks soak soak-backup soak-damage soak-splits soak-spark soak-hostile soak-tls fuzz demo clean sim cluster soak-cluster

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(INSTALLED) ## Make .venv with everything in it

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.12 …"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) \
		|| { $(call apt_install,python3-venv) && $(PYTHON) -m venv $(VENV); } \
		|| { echo "install Python's venv module first (Debian: python3-venv)"; exit 1; }
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(INSTALLED): $(READY)
	@echo "Installing what tests, benchmarks and Spark need; that takes a few minutes once."
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: $(READY) ## Start a broker (Kafka on 9092, HTTP on 8080, data in ./data)
	@$(BIN)/goqueue serve $(ARGS)

test: $(INSTALLED) kcat jq prometheus etcd ## Lint, types, import contracts and all tests
	@$(MAKE) --no-print-directory -j 2 lint compiled
	$(BIN)/pytest $(PYTEST_ARGS)

test-cluster: $(INSTALLED) kcat prometheus etcd ## The tests with real clients, at a broker of a cluster that leads nothing
	$(BIN)/pytest $(PYTEST_ARGS) --goqueue-cluster tests/interop

test-workers: $(INSTALLED) kcat prometheus etcd ## The same at two workers of one machine
	$(BIN)/pytest $(PYTEST_ARGS) --goqueue-workers tests/interop

# Beside mypy, which keeps one core busy: in a new clone the processes of pytest would all begin by
# compiling the same. What cannot be loaded, the tests themselves tell.
.PHONY: compiled
compiled: $(INSTALLED)
	@$(BIN)/python -m compileall -q src
	@-$(BIN)/pytest --collect-only -qq >/dev/null 2>&1

lint: $(INSTALLED) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

hooks: $(INSTALLED) ## Lint before every commit (git hook)
	$(BIN)/pre-commit install

format: $(INSTALLED) ## Format the source
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(INSTALLED) ## Measure beside peers; results in bench/results
	$(BIN)/python -m bench $(ARGS)

sim: $(INSTALLED) ## A million simulated clusters that fail in every way, half an hour; can be stopped
	$(BIN)/python -m tests.sim.replication --seeds 1000000

soak-cluster: $(INSTALLED) etcd ## Exactly-once copies over 100 kills, every feature over 100 more, an hour of faults under load; ARGS="--faults 300 --seed 7"
	$(BIN)/pytest -m slow tests/crash/cluster tests/interop/test_cluster_coordinators.py
	$(BIN)/python -m tests.crash.cluster.copying
	$(BIN)/python -m tests.crash.cluster.copying --client java
	$(BIN)/python -m tests.crash.cluster.features --kills 100 --delays 1000000
	$(BIN)/python -m tests.crash.cluster.features.rolling --turns 3
	$(BIN)/python -m tests.crash.cluster.rounds $(ARGS)

cluster: $(CLUSTERED) etcd ## Three brokers and an etcd on this machine (Kafka on 9092-9094, data in ./data/cluster)
	@$(BIN)/python -m goqueue.testing.local_cluster $(ARGS)

$(CLUSTERED): $(READY)
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[cluster]'
	@touch $@

soak: $(INSTALLED) ## Exactly-once under 100 kills, 5,000 partitions with few open files, some minutes
	$(BIN)/python -m tests.crash.exactly_once --rounds 100
	$(BIN)/pytest -m slow tests/interop tests/crash/test_delays.py tests/hostile

kafka-tools: $(INSTALLED) etcd ## Commands of Apache Kafka's bin/ against Apache Kafka and GoQueue, compared; its clients with TLS and log-ins; some minutes
	$(BIN)/pytest -m slow tests/interop/test_kafka_bin.py tests/interop/test_kafka_connect.py tests/interop/test_kafka_acls.py tests/interop/test_kafka_bin_users.py tests/interop/test_kafka_java_security.py

removed-checks: $(INSTALLED) ## Each place that asks for a right is left out in turn; some test must notice; minutes
	$(BIN)/pytest -m slow -s tests/access/test_removed_checks.py

soak-backup: $(INSTALLED) etcd ## 5 GB backed up under load, restored and compared byte by byte, of one broker and of three; MinIO
	$(BIN)/python -m tests.crash.backups --gigabytes 5
	$(BIN)/python -m tests.crash.backups --gigabytes 1 --cluster
	$(BIN)/pytest -m slow tests/crash/test_backups.py tests/crash/test_backup_objects.py

soak-splits: $(INSTALLED) etcd ## 20 splits under load, 20 with Kafka's client, and with kills on one broker and on three; half an hour
	$(BIN)/python -m tests.crash.splits --rounds 10 $(ARGS)
	$(BIN)/python -m tests.crash.splits --rounds 10 --java $(ARGS)
	$(BIN)/python -m tests.crash.splits --rounds 5 --quiet 1 --kill $(ARGS)
	$(BIN)/python -m tests.crash.splits --rounds 3 --quiet 1 --cluster --kill $(ARGS)

soak-damage: $(INSTALLED) ## 1,000 damaged data directories, some ten minutes
	$(BIN)/python -m tests.crash.damages --count 1000

soak-spark: $(INSTALLED) etcd ## Clusters, object stores, and exactly-once through Spark under 60 kills
	$(BIN)/pytest -m slow tests/spark
	$(BIN)/python -m tests.spark.standalone_cluster
	$(BIN)/python -m tests.crash.spark_rounds --rounds 20
	$(BIN)/python -m tests.crash.spark_rounds --rounds 20 --cluster
	$(BIN)/python -m tests.crash.spark_delta_rounds --rounds 20 --cluster

fuzz: $(FUZZING) ## Fuzz for a minute each; TARGETS="sqs_requests …", SECONDS=600, KEEP=--keep
	$(BIN)/python -m tests.fuzz $(TARGETS) --seconds $(SECONDS) $(KEEP)

$(FUZZING): $(INSTALLED)
	@$(BIN)/pip install -q --disable-pip-version-check --only-binary atheris -c constraints.txt -e '.[fuzz]' \
		|| { echo "atheris has no wheel for this Python; 3.11 to 3.13 have one (make test replays the corpus without it)"; exit 1; }
	@touch $@

soak-tls: $(INSTALLED) ## 100 certificates replaced under load, without a failed connection
	$(BIN)/python -m tests.crash.certificate_rounds

soak-hostile: $(INSTALLED) ## A million hostile frames at each door, 10,000 connections, and a canary
	$(BIN)/python -m tests.hostile.soak
	$(BIN)/python -m tests.hostile.soak --security --frames 100000 --connections 2000
	$(BIN)/python -m tests.hostile.soak --workers 2 --frames 100000 --connections 2000

demo: $(INSTALLED) ## A tour: orders through a queue, a log and a Spark pipeline
	@$(BIN)/python -m demo $(ARGS)

clean: ## Remove what can be made again (not ./data)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .fuzz .sim build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A client that tests run as a process; it is no Python package.
.PHONY: kcat
kcat:
	@command -v kcat >/dev/null || { echo "installing kcat, a Kafka client that the tests run"; \
		$(call apt_install,kcat); } \
		|| { echo "install kcat first (Debian: apt-get install kcat, macOS: brew install kcat)"; exit 1; }

# README and docs use it with curl; the tests type what they show.
.PHONY: jq
jq:
	@command -v jq >/dev/null || { echo "installing jq, which the examples in docs/ use"; \
		$(call apt_install,jq); } \
		|| { echo "install jq first (Debian: apt-get install jq, macOS: brew install jq)"; exit 1; }

# The dashboard and the alerts are tried in a real Prometheus.
.PHONY: prometheus
prometheus:
	@command -v prometheus promtool >/dev/null || { echo "installing Prometheus, which the tests run"; \
		$(call apt_install,prometheus); } \
		|| { echo "install Prometheus first (Debian: apt-get install prometheus, macOS: brew install prometheus)"; exit 1; }

# The metadata of a cluster lives in a real etcd.
.PHONY: etcd
etcd:
	@command -v etcd >/dev/null || { echo "installing etcd, which the tests run"; \
		$(call apt_install,etcd-server); } \
		|| { echo "install etcd first (Debian: apt-get install etcd-server, macOS: brew install etcd)"; exit 1; }
