"""Consumers that subscribe by a regular expression are assigned what they may see, and nobody else
waits for it; librdkafka with KIP-848."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from goqueue.testing import EmbeddedBroker

EU, US = "orders-eu", "orders-us"
TIMEOUT_S = 30


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(security=True, num_partitions=1) as broker:
        for name in (EU, US):
            broker.create_topic(name, partitions=1)
        yield broker


def rule(name: str, operation: str = "read", resource: str = "topic") -> dict[str, str]:
    return {"resource": resource, "name": name, "operation": operation}


def user(broker: EmbeddedBroker, name: str, *topics: str) -> Consumer:
    rules = (rule("g", resource="group"), *map(rule, topics))
    broker.create_user(name, "s3cret", rules=rules)
    settings: dict[str, Any] = {
        **broker.client_config(name, "s3cret"),
        "group.id": "g",
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe(["^orders-.*"])
    return consumer


def assigned(*consumers: Consumer) -> list[set[str]]:
    """While all of them go on."""
    for each in consumers:
        message = each.poll(0.05)
        assert message is None or message.error() is None, message.error()
    return [{place.topic for place in each.assignment()} for each in consumers]


def await_assigned(expected: list[set[str]], *consumers: Consumer) -> None:
    ends = time.monotonic() + TIMEOUT_S
    while (found := assigned(*consumers)) != expected:
        assert time.monotonic() < ends, found


def test_each_topic_goes_to_a_member_that_may_see_it(broker: EmbeddedBroker) -> None:
    with ExitStack() as stack:
        http = stack.enter_context(httpx.Client(**broker.http_client_kwargs()))
        alice, bob = user(broker, "alice", EU), user(broker, "bob", EU, US)
        stack.callback(alice.close)
        stack.callback(bob.close)
        await_assigned([{EU}, {US}], alice, bob)
        # Neither is left to nobody when a right moves from one to the other.
        given = {"principal": "User:alice", **rule(US)}
        assert http.post("/rules", json={"rules": [given]}).status_code == 201
        taken = {"principal": "User:bob", "resource": "topic", "name": US}
        assert http.request("DELETE", "/rules", params=taken).status_code == 200
        await_assigned([{US}, {EU}], alice, bob)
        producer = Producer(broker.client_config())
        producer.produce(US, b"one")
        assert producer.flush(TIMEOUT_S) == 0
        message = alice.poll(TIMEOUT_S)
        assert message is not None
        assert message.value() == b"one"
        # What nobody may see waits for nobody.
        taken = {"principal": "User:alice", "resource": "topic"}
        assert http.request("DELETE", "/rules", params=taken).status_code == 200
        await_assigned([set(), {EU}], alice, bob)
