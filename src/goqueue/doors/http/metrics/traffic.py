"""What goes through the doors, and how late the event loop is."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics.families import (
    Families,
    counter,
    counters,
    gauge,
    histogram,
    histograms,
)
from goqueue.doors.http.traffic import Traffic
from goqueue.model.measuring.traffic import DoorTraffic, KafkaTraffic, SqsTraffic


def read(counted: DoorTraffic, http: Traffic) -> Families:
    """Takes down now what changes with every request."""
    lag = counted.loop_lag.figures()
    doors = (
        _http(http),
        _kafka(counted.kafka),
        _sqs(counted.sqs),
    )

    def families() -> Iterable[Metric]:
        yield histogram(
            "goqueue_event_loop_lag_seconds",
            "How much later than asked for the event loop called, ten times a second.",
            lag,
        )
        for door in doors:
            yield from door()

    return families


def _http(traffic: Traffic) -> Families:
    connections, in_flight = traffic.connections, traffic.in_flight
    answered = sorted(traffic.answered.items())
    latencies = [(key, each.figures()) for key, each in traffic.latencies.items()]

    def families() -> Iterable[Metric]:
        yield gauge("goqueue_http_connections", "Open HTTP connections.", connections)
        yield gauge("goqueue_http_requests_in_flight", "HTTP requests not answered yet.", in_flight)
        yield counters(
            "goqueue_http_requests",
            "HTTP requests answered.",
            ("method", "status"),
            (((method, str(status)), count) for (method, status), count in answered),
        )
        yield histograms(
            "goqueue_http_request_duration_seconds",
            "HTTP requests by route; those that wait for messages wait here, too.",
            ("method", "route"),
            latencies,
        )

    return families


def _kafka(traffic: KafkaTraffic) -> Families:
    connections = traffic.connections
    is_open, accepted, refused = connections.open, connections.accepted, connections.refused
    latencies = [((api,), each.figures()) for api, each in traffic.latencies.items()]
    failures = sorted(traffic.failures.items())
    authentications = sorted(traffic.authentications.items())

    def families() -> Iterable[Metric]:
        yield gauge("goqueue_kafka_connections", "Open Kafka connections.", is_open)
        yield counter(
            "goqueue_kafka_connections_accepted", "Kafka connections since the start.", accepted
        )
        yield counter(
            "goqueue_kafka_connections_refused",
            "Kafka connections turned away because of max.connections.",
            refused,
        )
        yield histograms(
            "goqueue_kafka_request_duration_seconds",
            "Kafka requests by API; those that wait for messages or members wait here, too.",
            ("api",),
            latencies,
        )
        yield counters(
            "goqueue_kafka_request_failures",
            "Kafka requests that could not be answered, so that the connection was closed.",
            ("api",),
            (((api,), count) for api, count in failures),
        )
        yield counters(
            "goqueue_kafka_authentications",
            "Log-ins of Kafka clients, also those again on an open connection.",
            ("mechanism", "outcome"),
            authentications,
        )

    return families


def _sqs(traffic: SqsTraffic) -> Families:
    latencies = [((action,), each.figures()) for action, each in traffic.latencies.items()]
    errors = sorted(traffic.errors.items())

    def families() -> Iterable[Metric]:
        yield histograms(
            "goqueue_sqs_request_duration_seconds",
            "SQS requests by action; receives wait for messages here, too.",
            ("action",),
            latencies,
        )
        yield counters(
            "goqueue_sqs_request_errors",
            "SQS requests refused or failed, by error code.",
            ("action", "code"),
            errors,
        )

    return families
