"""The figures of several workers as one text."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from goqueue.doors.http.metrics.workers import together


def text_of(requests: int, topics: dict[str, int]) -> bytes:
    registry = CollectorRegistry()
    Gauge("goqueue_brokers", "Brokers.", registry=registry).set(2)
    Counter("goqueue_requests", "Requests.", registry=registry).inc(requests)
    lag = Gauge("goqueue_lag", "Lag.", ["topic"], registry=registry)
    for topic, messages in topics.items():
        lag.labels(topic).set(messages)
    Histogram("goqueue_seconds", "Seconds.", ["api"], registry=registry).labels("Fetch").observe(1)
    return generate_latest(registry)


def test_every_family_stands_once_and_every_sample_says_whose_it_is() -> None:
    # Names of topics as odd as labels can be; and a family that the first one has no sample of.
    odd = 'a "b" {c} \\ d\ne'
    text = together({0: text_of(3, {}), 1: text_of(4, {odd: 7, "plain": 8}), 2: None}).decode()
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert len(heads) == len(set(heads))
    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            place = sample.name, tuple(sorted(sample.labels.items()))
            assert place not in samples
            samples[place] = sample.value
    assert samples["goqueue_requests_total", (("worker", "0"),)] == 3
    assert samples["goqueue_requests_total", (("worker", "1"),)] == 4
    assert samples["goqueue_lag", (("topic", odd), ("worker", "1"))] == 7
    assert samples["goqueue_lag", (("topic", "plain"), ("worker", "1"))] == 8
    bucket = (("api", "Fetch"), ("le", "1.0"), ("worker", "1"))
    assert samples["goqueue_seconds_bucket", bucket] == 1
    up = {labels: value for (name, labels), value in samples.items() if name == "goqueue_worker_up"}
    assert up == {(("worker", "0"),): 1, (("worker", "1"),): 1, (("worker", "2"),): 0}


def test_samples_of_a_family_stand_together() -> None:
    lines = together({0: text_of(1, {"a": 1}), 1: text_of(2, {"b": 2})}).decode().splitlines()
    families = [line.split("{")[0] for line in lines if not line.startswith("#")]
    assert families.index("goqueue_lag") + 1 == len(families) - 1 - families[::-1].index(
        "goqueue_lag"
    )
