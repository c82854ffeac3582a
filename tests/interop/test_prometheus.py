"""Metrics, dashboard and alerts in a real Prometheus that scrapes a real broker."""

import json
import math
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.interop.prometheus_process import (
    ALERTS,
    CONFIG,
    DEPLOY,
    Prometheus,
    running_prometheus,
    wait_for,
)
from tests.interop.prometheus_traffic import Traffic
from tests.interop.servers import NewServer, http_urls_of

DASHBOARD = DEPLOY / "grafana" / "goqueue.json"
DOCUMENT = DEPLOY.parent / "docs" / "metrics.md"
# What Grafana puts in the place of its variables when everything is chosen. The interval is longer
# than the traffic lasts, also on a busy machine.
VARIABLES = {"$__rate_interval": "15m", "$job": ".*", "$instance": ".*", "$topic": ".*"}
VARIABLES |= {"$group": ".*", "$cluster": ".*"}
# Nothing of these happens in a node of one.
OF_CLUSTERS = {
    "goqueue_call_duration_seconds",
    "goqueue_call_failures_total",
    "goqueue_served_call_duration_seconds",
    "goqueue_unanswered_lists_total",
}
# Several processes at one address tell this of each other.
OF_WORKERS = {"goqueue_worker_up"}
# Only brokers with a certificate have these (`test_tls_reloading.py`).
OF_TLS = {
    "goqueue_tls_certificate_expiry_timestamp_seconds",
    "goqueue_tls_certificate_reloads_total",
    "goqueue_tls_certificate_stale",
    "goqueue_tls_crl_expiry_timestamp_seconds",
    "goqueue_tls_certificate_reload_failures_total",
    "goqueue_tls_handshake_failures_total",
}
# As panels choose samples that say whose they are.
_OF_A_WORKER = 'worker!=""'
_LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")
_METRIC = re.compile(r"\b(?:goqueue|process)_\w+\b|\bup\b")
_ROW = re.compile(r"^\| `(goqueue_\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Watched:
    """Brokers after traffic of every kind, and a Prometheus that has seen them."""

    prometheus: Prometheus
    metrics_texts: list[str]

    def leaves_out(self, expression: str) -> bool:
        """Whether there can be no data."""
        is_cluster = len(self.metrics_texts) > 1
        absent: set[str] = set(OF_TLS)
        if not self.is_of_workers:
            absent |= {*OF_WORKERS, _OF_A_WORKER}
            if not is_cluster:
                absent |= OF_CLUSTERS
        return any(name in expression for name in absent)

    @property
    def is_of_workers(self) -> bool:
        return "goqueue_worker_up" in self.metrics_texts[0]


@pytest.fixture(scope="module")
def watched(new_server: NewServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    data, own = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("prometheus")
    tracing = ("--set", "tracing.enabled=true", "--set", "tracing.sampling.rate=1")
    with (
        new_server(data, *tracing, "--set", "audit.enabled=true") as server,
        running_prometheus(http_urls_of(server), own) as prometheus,
        Traffic(server) as traffic,
    ):
        # Two rounds with a scrape in between: a rate needs something that grows.
        traffic.round()
        prometheus.wait_scrapes(2)
        traffic.round()
        prometheus.wait_scrapes(2)
        yield Watched(prometheus, [exposed(url) for url in http_urls_of(server)])


def exposed(url: str) -> str:
    with urlopen(url + "/metrics", timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def promtool(*arguments: str, text: str = "") -> None:
    done = subprocess.run(
        ["promtool", *arguments], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- the files by themselves --------------------------------------------------------------


def test_the_configuration_and_the_rules_load() -> None:
    promtool("check", "config", str(CONFIG))
    promtool("check", "rules", str(ALERTS))


def test_the_alerts_fire_when_they_should() -> None:
    promtool("test", "rules", str(ALERTS.with_name("alerts_test.yml")))


def test_every_alert_is_tested_both_ways_and_explained() -> None:
    fires: set[str] = set()
    quiet: set[str] = set()
    for test in yaml.safe_load(ALERTS.with_name("alerts_test.yml").read_text())["tests"]:
        for case in test["alert_rule_test"]:
            (fires if case["exp_alerts"] else quiet).add(case["alertname"])
    headings = set(re.findall(r"^#+ (GoQueue\w+)$", DOCUMENT.read_text(), re.MULTILINE))
    alerts = [rule["alert"] for group in alert_groups() for rule in group["rules"]]
    assert len(alerts) == len(set(alerts))
    assert set(alerts) == fires == quiet == headings
    for rule in (rule for group in alert_groups() for rule in group["rules"]):
        assert rule["annotations"]["runbook"] == f"docs/metrics.md#{rule['alert'].lower()}"


def alert_groups() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"]
    return groups


def test_the_dashboard_is_well_formed() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["schemaVersion"] >= 36
    assert dashboard["uid"]
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    rows = [panel["title"] for panel in panels if panel["type"] == "row"]
    assert {"Traffic", "Latency", "Queues", "Groups and lag", "Delays", "Storage"} < set(rows)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"


# --- against a broker ---------------------------------------------------------------------


def test_every_panel_of_the_dashboard_has_data(watched: Watched) -> None:
    empty = []
    for title, expression in expressions():
        if watched.leaves_out(expression):
            continue
        found = watched.prometheus.query(expression)
        values = [float(sample["value"][1]) for sample in found]
        if not any(math.isfinite(value) for value in values):
            empty.append((title, expression, values))
    assert not empty


def expressions() -> list[tuple[str, str]]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    found = [(p["title"], target["expr"]) for p in panels for target in p.get("targets", ())]
    assert len(found) > 50
    return [(title, _filled_in(expression)) for title, expression in found]


def _filled_in(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def test_every_variable_of_the_dashboard_has_values(watched: Watched) -> None:
    for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]:
        if variable["type"] != "query":
            continue
        match = _LABEL_VALUES.fullmatch(variable["query"]["query"])
        assert match is not None
        found = watched.prometheus.query(_filled_in(match[1]))
        assert any(sample["metric"].get(match[2]) for sample in found), variable["name"]


def test_every_alert_is_evaluated(watched: Watched) -> None:
    rules = wait_for(lambda: _evaluated(watched.prometheus))
    names = watched.prometheus.metric_names()
    for rule in rules:
        assert rule["health"] == "ok", (rule["name"], rule.get("lastError"))
        used = {name for name in _METRIC.findall(rule["query"]) if not name.endswith("_")}
        absent = {name for name in used if watched.leaves_out(name)}
        assert used - absent <= names | {"goqueue_"}, rule["name"]
    # The traffic has dead letters, and nothing else that is alarming.
    assert wait_for(watched.prometheus.firing) == {"GoQueueDeadLettersGrowing"}


def _evaluated(prometheus: Prometheus) -> list[dict[str, Any]] | None:
    rules = prometheus.rules()
    return rules if all(rule["health"] != "unknown" for rule in rules) else None


def test_promtool_has_nothing_to_say_about_the_metrics(watched: Watched) -> None:
    for text in watched.metrics_texts:
        promtool("check", "metrics", text=text)


def test_the_document_has_every_metric_as_it_is(watched: Watched) -> None:
    exposed: dict[str, tuple[str, set[str], str]] = {}
    sampled: set[str] = set()
    for text in watched.metrics_texts:
        for family in text_string_to_metric_families(text):
            if not family.name.startswith("goqueue_"):
                continue
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            if name not in OF_WORKERS:
                labels.discard("worker")
            _, others, _ = exposed.get(name, ("", set(), ""))
            exposed[name] = (family.type, labels | others, family.documentation)
            sampled |= {name} if family.samples else set()
    absent = {name for name in exposed if watched.leaves_out(name)}
    assert exposed.keys() - absent == sampled, "the traffic leaves some without a sample"
    documented = {
        name: (kind, set(re.findall(r"`(\w+)`", labels)), text)
        for name, kind, labels, text in _ROW.findall(DOCUMENT.read_text())
    }
    expected = documented.keys() - OF_TLS - (set() if watched.is_of_workers else OF_WORKERS)
    assert expected == exposed.keys()
    for name in exposed.keys() - absent:
        assert documented[name] == exposed[name]


def test_figures_are_right_where_they_can_be_known(watched: Watched) -> None:
    def value(metric: str) -> float:
        """Of all brokers together: none tells what another one tells, too."""
        [found] = watched.prometheus.query(f"sum({metric})")
        return float(found["value"][1])

    assert value('goqueue_partition_messages_in_total{topic="jobs"}') == 2 * 21
    assert value('goqueue_group_members{group="billing"}') == 2
    assert value('goqueue_group_members{group="sharers"}') == 1
    assert value('goqueue_group_lag_messages{group="billing",topic="payments"}') > 0
    assert value('goqueue_transactions_ended_total{outcome="commit"}') == 2
    assert value('goqueue_transactions_ended_total{outcome="abort"}') == 2
    assert value("goqueue_dead_letters_total") == 2
    assert value("goqueue_dead_letters_sent_back_total") == 2
    assert value("goqueue_dead_letters_pending") == 0
    assert value("goqueue_delayed_pending") == 2
    assert value("goqueue_delayed_delivered_total") == 2
    assert value("goqueue_delayed_cancelled_total") == 2
    assert value('goqueue_queue_outcomes_total{group="workers",outcome="accepted"}') == 2
    assert value('goqueue_queue_outcomes_total{group="workers",outcome="dead_lettered"}') == 2
    assert value('goqueue_sqs_request_duration_seconds_count{action="SendMessage"}') == 2
    assert value('goqueue_sqs_request_errors_total{action="GetQueueUrl"}') == 2
    assert value('goqueue_kafka_request_failures_total{api="Metadata"}') == 2
    assert value("goqueue_schemas") == 1
