"""What a writer was asked for. Names follow Kafka's producers and Spark's own Kafka sink."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from goqueue.client.addresses import parse_addresses
from goqueue.client.errors import BrokerUnreachable
from goqueue.client.record_block import COMPRESSIONS
from goqueue.model.client_security import ClientSecurity
from goqueue.model.settings import INT32_MAX
from goqueue.model.transactions.group_names import GROUP_ID_MAX_LENGTH, is_group_id
from goqueue.spark.kafka_options import PRODUCER_REFUSED, PRODUCER_WITHOUT_EFFECT
from goqueue.spark.option_names import GivenOptions, InvalidOption
from goqueue.spark.security_options import (
    SECURITY_ALIASES,
    SECURITY_OPTIONS,
    http_of_profile,
    parse_security,
)

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"

# Half the size that topics take by default, and large enough for few requests.
BATCH_BYTES_DEFAULT: Final = 512 * 1024
# Without a sign of life from any task of the write. Longer than Spark needs for new executors
# where it lost all, and as long as readers wait for what a killed driver left.
TRANSACTION_TIMEOUT_MS_DEFAULT: Final = 120_000
# A broker that is started again is back within seconds; one that is gone should be noticed.
DELIVERY_TIMEOUT_MS_DEFAULT: Final = 20_000

# The broker takes it as a number in JSON, whose whole numbers end here.
_SEQUENCE_MAX: Final = 2**53 - 1

_QUERY_PREFIX: Final = "spark-query."
_WRITE_PREFIX: Final = "spark-write."
_TRANSACTION_ID_MAX_LENGTH: Final = GROUP_ID_MAX_LENGTH - len(_WRITE_PREFIX)

_KNOWN: Final = (
    "bootstrap.servers",
    "topic",
    "delivery.guarantee",
    "transaction.id",
    "transaction.sequence",
    "transaction.timeout.ms",
    "delivery.timeout.ms",
    "compression.type",
    "batch.size",
    "http.url",
    # Headers are written where there is a column of them.
    "includeHeaders",
    # Spark's own, which it hands on.
    "checkpointLocation",
    "queryName",
    *SECURITY_OPTIONS,
)
_ALIASES: Final = {"compression": "compression.type", **SECURITY_ALIASES}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    bootstrap_servers: str
    security: ClientSecurity
    # None: each row names its topic.
    topic: str | None
    is_exactly_once: bool
    transaction_id: str | None
    # Counts what is written under the id.
    transaction_sequence: int
    transaction_timeout_ms: int
    delivery_timeout_ms: int
    compression: str
    batch_bytes: int
    http_url: str | None


def parse_options(given: Mapping[str, str], *, is_stream: bool) -> WriterOptions:
    options = GivenOptions(
        given,
        _KNOWN,
        aliases=_ALIASES,
        without_effect=PRODUCER_WITHOUT_EFFECT,
        refused=PRODUCER_REFUSED,
    )
    bootstrap_servers = options.text("bootstrap.servers")
    try:
        parse_addresses(bootstrap_servers)
    except BrokerUnreachable as error:
        raise InvalidOption(f"bootstrap.servers: {error.message}") from None
    guarantee = options.choice("delivery.guarantee", (EXACTLY_ONCE, AT_LEAST_ONCE), EXACTLY_ONCE)
    transaction_id = options.text("transaction.id") or None
    _check_transaction_id(transaction_id, guarantee, is_stream=is_stream)
    sequence = options.number("transaction.sequence", minimum=0, maximum=_SEQUENCE_MAX)
    if sequence is not None and transaction_id is None:
        raise InvalidOption("transaction.sequence counts the writes of a transaction.id; give both")
    return WriterOptions(
        bootstrap_servers=bootstrap_servers,
        security=parse_security(options, bootstrap_servers),
        topic=options.text("topic") or None,
        is_exactly_once=guarantee == EXACTLY_ONCE,
        transaction_id=transaction_id,
        transaction_sequence=sequence or 0,
        transaction_timeout_ms=options.duration_ms(
            "transaction.timeout.ms", minimum=1_000, maximum=INT32_MAX
        )
        or TRANSACTION_TIMEOUT_MS_DEFAULT,
        delivery_timeout_ms=options.duration_ms("delivery.timeout.ms", minimum=1, maximum=INT32_MAX)
        or DELIVERY_TIMEOUT_MS_DEFAULT,
        compression=options.choice("compression.type", tuple(COMPRESSIONS), "none"),
        batch_bytes=options.size_bytes("batch.size", minimum=1_024, maximum=100 * 1024 * 1024)
        or BATCH_BYTES_DEFAULT,
        http_url=options.text("http.url") or http_of_profile(options, bootstrap_servers) or None,
    )


def _check_transaction_id(transaction_id: str | None, guarantee: str, *, is_stream: bool) -> None:
    if transaction_id is None:
        return
    if is_stream:
        raise InvalidOption(
            "transaction.id goes with batch writes; a stream is known by its checkpoint"
        )
    if guarantee != EXACTLY_ONCE:
        raise InvalidOption(f"transaction.id goes with delivery.guarantee={EXACTLY_ONCE} only")
    if not is_group_id(write_group(transaction_id)):
        raise InvalidOption(
            f"transaction.id: {transaction_id!r} must be 1 to {_TRANSACTION_ID_MAX_LENGTH} ASCII "
            "letters, digits, '.', '_' and '-'"
        )


def query_group(query_id: str) -> str:
    """The group of all batches of a streaming query, which its checkpoint names."""
    return _QUERY_PREFIX + query_id


def write_group(transaction_id: str | None) -> str:
    """The group of one batch write; without an id of the user's, nobody comes back to it."""
    return _WRITE_PREFIX + (transaction_id or str(uuid.uuid4()))
