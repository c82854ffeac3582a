"""Options that a query brings along from Spark's own Kafka source and sink."""

import pytest

from goqueue.client.log_cluster import PATIENCE_SECONDS
from goqueue.spark.option_names import InvalidOption
from goqueue.spark.sink.options import parse_options
from goqueue.spark.source.options import SourceOptions, parse_source_options
from goqueue.spark.source.stream_offsets import StreamOffsets
from goqueue.spark.source.stream_reader import StreamReader
from tests.unit.spark.test_stream_planning import TOPIC_ID, Logs

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}


def options(**given: str) -> SourceOptions:
    return parse_source_options(NEEDED | given, streaming=True)


def test_a_query_of_sparks_kafka_source_moves_over() -> None:
    found = options(
        **{
            "groupIdPrefix": "reports",
            "minOffsetsPerTrigger": "1000",
            "maxOffsetsPerTrigger": "5000",
            "maxTriggerDelay": "10m",
            "fetchOffset.numRetries": "60",
            "fetchOffset.retryIntervalMs": "500",
            "kafkaConsumer.pollTimeoutMs": "20000",
            "kafka.max.poll.records": "500",
            "kafka.session.timeout.ms": "30000",
            "kafka.request.timeout.ms": "30000",
            "kafka.security.protocol": "PLAINTEXT",
            "kafka.isolation.level": "read_committed",
            "kafka.max.partition.fetch.bytes": "1048576",
            "failOnDataLoss": "false",
            "includeHeaders": "true",
        }
    )
    assert (found.group_prefix, found.min_offsets_per_trigger) == ("reports", 1000)
    assert (found.max_trigger_delay_ms, found.patience_seconds) == (600_000, 30)
    # In a batch the limits of triggers mean nothing, as there.
    limits = {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "2"}
    batch = parse_source_options(NEEDED | limits, streaming=False)
    assert batch.patience_seconds == PATIENCE_SECONDS
    written = parse_options(
        NEEDED_TO_WRITE | {"kafka.acks": "all", "kafka.linger.ms": "5", "kafka.retries": "3"},
        is_stream=True,
    )
    assert written.topic == "t"


NEEDED_TO_WRITE = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("kafka.auto.offset.reset", "earliest", "startingOffsets"),
        ("kafka.enable.auto.commit", "true", "in its checkpoint"),
        ("kafka.value.deserializer", "x.Y", r"value\.format"),
        ("kafka.interceptor.classes", "x.Y", "classes of Java"),
        ("kafka.sasl.jaas.config", "…", "say username and password"),
        ("kafka.ssl.truststore.location", "/x", "say ca.file"),
        ("username", "alice", "no password of 'alice'"),
        ("ca.file", "/no/such/file", "there is no such file"),
        ("profile", "nowhere", "no profile 'nowhere'"),
        ("maxTriggerDelay", "soon", "'soon' is not a duration"),
        ("minOffsetsPerTrigger", "10", r"more than maxOffsetsPerTrigger allows \(5\)"),
        ("kafka.max.pol.records", "1", "no option 'kafka.max.pol.records'"),
    ],
)
def test_what_would_change_the_rows_is_refused(name: str, value: str, reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason) as raised:
        options(**{name: value, "maxOffsetsPerTrigger": "5"})
    assert name in str(raised.value)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("kafka.transactional.id", r"transaction\.id"), ("kafka.key.serializer", "column key")],
)
def test_what_would_change_what_is_written_is_refused(name: str, reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        parse_options(NEEDED_TO_WRITE | {name: "x"}, is_stream=False)


class Reader(StreamReader):
    """Of one partition, whose end moves."""

    def __init__(self, found: SourceOptions) -> None:
        super().__init__(found, None)  # type: ignore[arg-type]  # only plans
        self.moved_to(0)

    def moved_to(self, end: int) -> None:
        self._cluster = Logs((0, end))

    def next_end(self, start: int) -> int:
        at = StreamOffsets({("orders", 0): start}, {"orders": TOPIC_ID}).to_json()
        return int(self.latestOffset(at, self.getDefaultReadLimit())["offsets"]["orders"]["0"])


def test_a_batch_waits_for_enough_offsets_or_long_enough() -> None:
    reader = Reader(options(minOffsetsPerTrigger="10", maxTriggerDelay="200ms"))
    reader.moved_to(3)
    assert reader.next_end(0) == 3, "the first does not wait"
    reader.moved_to(12)
    assert reader.next_end(3) == 3
    reader.moved_to(13)
    assert reader.next_end(3) == 13, "there are enough"
    reader.moved_to(14)
    while reader.next_end(13) == 13:
        pass  # until the delay is over


def test_what_is_available_now_does_not_wait() -> None:
    reader = Reader(options(minOffsetsPerTrigger="10"))
    reader.moved_to(3)
    assert reader.next_end(0) == 3
    reader.moved_to(5)
    reader.prepareForTriggerAvailableNow()
    assert reader.next_end(3) == 5
