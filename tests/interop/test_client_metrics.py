"""librdkafka pushes its metrics by itself, to whichever broker it likes (KIP-714)."""

from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer

from tests.busy_machine import stretched
from tests.interop.client_metrics import pushing_clients, subscribe, unsubscribe
from tests.interop.prometheus_process import wait_for
from tests.interop.servers import Server, http_urls_of

TIMEOUT_SECONDS = 60
INTERVAL_MS = 300
NAME = "of-two-clients"
CREATED = "org.apache.kafka.producer.connection.creation.total"


@pytest.fixture
def subscription(bootstrap: str) -> Iterator[None]:
    settings = {
        "interval.ms": str(INTERVAL_MS),
        "metrics": "*",
        "match": "client_id=pushing-.*,client_software_name=.*librdkafka|confluent-kafka-python",
    }
    subscribe(bootstrap, NAME, settings)
    yield
    unsubscribe(bootstrap, NAME, *settings)


@pytest.mark.usefixtures("subscription")
def test_a_producer_and_a_consumer_push(server: Server, bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "pushing-producer"})
    silent = Producer({"bootstrap.servers": bootstrap, "client.id": "silent-producer"})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "pushing-consumer",
            "group.id": f"of-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        for each in (producer, silent):
            each.produce(topic, b"x")
            assert each.flush(TIMEOUT_SECONDS) == 0
        consumer.subscribe([topic])

        def have_pushed() -> bool:
            consumer.poll(0.1)
            return {"pushing-producer", "pushing-consumer"} <= pushing_clients(server).keys()

        wait_for(have_pushed, stretched(TIMEOUT_SECONDS))
        found = pushing_clients(server)
        assert "silent-producer" not in found
        pushed = found["pushing-producer"]
        assert pushed["intervalMs"] == INTERVAL_MS
        assert pushed["subscribed"] == ["*"]
        assert pushed["softwareVersion"]
        values = {each["name"]: each for each in pushed["metrics"]}
        assert values[CREATED]["value"] >= 1
        first_ms = pushed["lastPushMs"]
        wait_for(
            lambda: pushing_clients(server)["pushing-producer"]["lastPushMs"] > first_ms,
            stretched(TIMEOUT_SECONDS),
        )
        texts = [urlopen(f"{url}/metrics").read().decode() for url in http_urls_of(server)]
        assert any(f'metric="{CREATED}"' in text for text in texts)
        assert all("silent-producer" not in text for text in texts)
    finally:
        consumer.close()
