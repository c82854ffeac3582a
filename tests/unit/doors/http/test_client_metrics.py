"""What Kafka clients push: in a list, and for Prometheus."""

import math
from uuid import UUID

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from goqueue.broker.node import Node
from goqueue.model.caller import ANONYMOUS, Caller, Door
from goqueue.model.client_metrics.messages import ClientSoftware, Push, TelemetryError
from goqueue.model.configs import ConfigChange, ConfigResource, ConfigResourceKind
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.otlp_pushes import gauge, metrics_data, total

pytestmark = pytest.mark.anyio

DATA = metrics_data(
    gauge("producer.queue", 1.5, topic="a", **{"node.id": "2", "client_id": "forged"}),
    total("producer.sent", 7, {"__x": "y", "0": "z"}),
    # The same to Prometheus, but not to the client.
    gauge("twice", 1.0, **{"a.b": "1"}),
    gauge("twice", 2.0, **{"a-b": "1"}),
    gauge("nothing", math.nan),
)


async def push(broker: Node, client_id: str, number: int, data: bytes = DATA) -> None:
    service = BrokerService(broker)
    resource = ConfigResource(ConfigResourceKind.CLIENT_METRICS, "all")
    changes = [ConfigChange(name="metrics", value="*")]
    await service.administration.alter_config(ANYONE, resource, changes)
    caller = Caller(principal=ANONYMOUS, door=Door.KAFKA, client_id=client_id, address="10.0.0.7")
    software = ClientSoftware("librdkafka", "2.16.0")
    answer = service.client_metrics.ask(caller, UUID(int=number), software)
    sent = Push(answer.subscribed.subscription_id, False, 0, data)
    error = service.client_metrics.push(caller, answer.instance_id, software, sent)
    assert error is TelemetryError.NONE


async def test_clients_are_listed_with_what_they_pushed(
    client: httpx.AsyncClient, broker: Node
) -> None:
    assert (await client.get("/clients/metrics")).json() == {"clients": [], "total": 0}
    for number, name in enumerate(("c", "a", "b"), 1):
        await push(broker, name, number)
    found = (await client.get("/clients/metrics", params={"limit": 2})).json()
    assert found["total"] == 3
    assert [each["clientId"] for each in found["clients"]] == ["a", "b"]
    one = (await client.get("/clients/metrics", params={"clientId": "c"})).json()["clients"][0]
    assert one["clientInstanceId"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert (one["softwareName"], one["softwareVersion"]) == ("librdkafka", "2.16.0")
    assert (one["address"], one["subscribed"], one["intervalMs"]) == ("10.0.0.7", ["*"], 300_000)
    values = {each["name"]: (each["kind"], each["value"]) for each in one["metrics"]}
    assert values["producer.queue"] == ("gauge", 1.5)
    assert values["producer.sent"] == ("counter", 7.0)
    assert values["nothing"] == ("gauge", None)
    assert one["metrics"][1]["attributes"] == {
        "client_id": "forged",
        "node.id": "2",
        "topic": "a",
    }


async def test_prometheus_gets_them_as_labels(client: httpx.AsyncClient, broker: Node) -> None:
    await push(broker, 'quoted "x"', 1)
    text = (await client.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = [sample for family in families.values() for sample in family.samples]
    (sent,) = (each for each in samples if each.name == "goqueue_client_accumulated_total")
    instance = "AAAAAAAAAAAAAAAAAAAAAQ"
    assert sent.value == 7
    assert sent.labels == {
        "client_id": 'quoted "x"',
        "client_instance_id": instance,
        "metric": "producer.sent",
        "x": "y",
        "_0": "z",
    }
    gauges = [each for each in samples if each.name == "goqueue_client_value"]
    by_metric = {sample.labels["metric"]: sample for sample in gauges}
    assert by_metric["producer.queue"].labels["node_id"] == "2"
    assert by_metric["producer.queue"].labels["client_id"] == 'quoted "x"'
    names = [tuple(sorted(sample.labels.items())) for sample in gauges]
    assert len(names) == len(set(names)) == 3, "no series is there twice"
    assert families["goqueue_client_instances"].samples[0].value == 1
    pushes = {s.labels["result"]: s.value for s in families["goqueue_client_pushes"].samples}
    assert pushes == {"taken": 1}


async def test_there_are_only_so_many_series(
    client: httpx.AsyncClient, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.doors.http.metrics.clients.CLIENT_SERIES_MAX", 3)
    await push(broker, "a", 1, metrics_data(*(gauge(f"m{n}", n) for n in range(10))))
    text = (await client.get("/metrics")).text
    assert text.count("\ngoqueue_client_value{") == 3
    assert "\ngoqueue_client_metrics_without_series 7.0" in text


async def test_subscriptions_are_made_listed_and_deleted(
    client: httpx.AsyncClient, broker: Node
) -> None:
    path = "/clients/subscriptions/of-billing"
    body = {
        "metrics": ["a.", "b"],
        "intervalMs": 5_000,
        "match": {"client_id": "billing-.*", "client_software_version": "2[.].*"},
    }
    made = await client.put(path, json=body)
    assert made.status_code == 200, made.text
    assert made.json() == {"name": "of-billing", **body}
    assert broker.image.client_metrics == {
        "of-billing": {
            "metrics": "a.,b",
            "interval.ms": "5000",
            "match": "client_id=billing-.*,client_software_version=2[.].*",
        }
    }
    await client.put("/clients/subscriptions/all", json={"metrics": ["*"]})
    found = (await client.get("/clients/subscriptions")).json()["subscriptions"]
    assert [each["name"] for each in found] == ["all", "of-billing"]
    assert (found[0]["intervalMs"], found[0]["match"]) == (300_000, {})
    for _ in range(2):
        assert (await client.delete(path)).status_code == 204
    assert set(broker.image.client_metrics) == {"all"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"metrics": []}, "metrics"),
        ({"metrics": ["a,b"]}, "metrics"),
        ({"metrics": ["*"], "intervalMs": 99}, "intervalMs"),
        ({"metrics": ["*"], "match": {"colour": "red"}}, "colour"),
        ({"metrics": ["*"], "match": {"client_id": "("}}, "match"),
        ({"metrics": ["*"], "more": 1}, "more"),
        ({}, "metrics"),
    ],
)
async def test_subscriptions_that_are_refused(
    client: httpx.AsyncClient, broker: Node, body: dict[str, object], words: str
) -> None:
    answer = await client.put("/clients/subscriptions/a", json=body)
    assert answer.status_code in (400, 422)
    assert words in answer.json()["error"]["message"]
    assert broker.image.client_metrics == {}
