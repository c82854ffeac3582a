"""What hostile Kafka clients send."""

import random
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Final

from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.operation import Operation
from tests.hostile.bursts import Burst, in_turn
from tests.hostile.kafka_requests import arrays_of, frame, small_frames
from tests.hostile.mutations import mutated
from tests.hostile_batches import batch, many_tiny_records, one_huge_record, record

# As many elements as the default settings let through.
ELEMENTS: Final = 19_990
RESOURCES: Final = 4_990
METADATA_BYTES: Final = 15_000_000
BOMB_BYTES: Final = 400_000_000
FOR_EVER_MS: Final = 2**31 - 1
PIPELINED: Final = 2_000
# Length, API key and version: what stands behind them is looked at.
_HEAD_BYTES: Final = 8
_LENGTH: Final = struct.Struct(">i")
# For RE2: many states for each letter of a name.
PATTERNS: Final = ("(?:a?){100}a{100}", "(x|xx|xxx|.*){50}y", ".*.*.*.*=.*", "(" * 200, "[" * 300)

_BY_NAME: Final = {operation.name: operation for operation in OPERATIONS.values()}


class KafkaFrames:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._small = small_frames()
        self._costly = in_turn(chance, costly_makers())
        self._api_versions = frame(_BY_NAME["ApiVersions"], 0, {})

    def burst(self) -> Burst:
        chance = self._chance
        kind = chance.random()
        if kind < 0.02:
            frames = [self._api_versions] * PIPELINED
        elif kind < 0.08:
            body = chance.choice(self._small)[_LENGTH.size :]
            length = chance.choice((chance.randrange(-(2**31), 2**31), chance.randrange(300)))
            frames = [_LENGTH.pack(length) + body]
        else:
            frames = chance.choices(self._small, k=chance.randrange(0, 40))
            frames.append(self._damaged())
        return Burst(b"".join(frames), len(frames))

    def _damaged(self) -> bytes:
        body = mutated(self._chance, self._chance.choice(self._small), _HEAD_BYTES)[_LENGTH.size :]
        return _LENGTH.pack(len(body)) + body

    def costly(self) -> Burst:
        return Burst(next(self._costly)(), 1)


def costly_makers() -> list[Callable[[], bytes]]:
    """Valid requests that ask for as much as they may."""
    return [
        *(
            partial(_wide, operation.name, array)
            for operation in OPERATIONS.values()
            for array in arrays_of(operation)
        ),
        *(partial(_special, name) for name in _SPECIAL),
    ]


@cache
def _wide(name: str, array: str) -> bytes:
    operation = _BY_NAME[name]
    return frame(operation, operation.max_version, {}, _at_most(operation, array), array)


def _at_most(operation: Operation, array: str) -> int:
    """How often an element fits, with the arrays of one element that are inside of it."""
    limit = RESOURCES if operation.names_resources else ELEMENTS
    inside = len(arrays_of(operation)) - arrays_of(operation).index(array)
    return limit // inside


@cache
def _special(name: str) -> bytes:
    return _SPECIAL[name]()


def _newest(name: str, **words: object) -> bytes:
    return frame(_BY_NAME[name], _BY_NAME[name].max_version, words)


def _produce(records: bytes | bytearray) -> bytes:
    return frame(_BY_NAME["Produce"], 9, {"name": "bombs", "records": bytes(records)})


_SPECIAL: Final[dict[str, Callable[[], bytes]]] = {
    "every topic": lambda: _newest("Metadata", topics=None),
    "every log dir": lambda: _newest("DescribeLogDirs", topics=None),
    "every offset": lambda: _newest("OffsetFetch", topics=None),
    "every setting, with synonyms and docs": lambda: frame(
        _BY_NAME["DescribeConfigs"],
        4,
        {"include_synonyms": True, "include_documentation": True, "configuration_keys": None},
        RESOURCES,
        "resources",
    ),
    "every setting of one topic, often": lambda: frame(
        _BY_NAME["DescribeConfigs"], 4, {"configuration_keys": None}, 300, "resources"
    ),
    "all partitions of a wide topic": lambda: frame(
        _BY_NAME["Produce"], 9, {"name": "wide"}, 1_000, "partition_data"
    ),
    "fetch of a wide topic, for ever": lambda: frame(
        _BY_NAME["Fetch"],
        11,
        {"topic": "wide-0", "max_wait": FOR_EVER_MS, "min_bytes": FOR_EVER_MS},
        1_000,
        "partitions",
    ),
    "metadata of a member": lambda: frame(
        _BY_NAME["JoinGroup"], 5, {"metadata": bytes(METADATA_BYTES), "protocol_type": "consumer"}
    ),
    "topics made on first use": lambda: frame(
        _BY_NAME["Metadata"], 9, {"allow_auto_topic_creation": True}, 2_000, "topics"
    ),
    **{
        f"subscription to {pattern}": partial(
            _newest,
            "ConsumerGroupHeartbeat",
            subscribed_topic_regex=pattern,
            member_epoch=0,
            rebalance_timeout=1_000,
        )
        for pattern in PATTERNS
    },
    "transactions by a pattern": lambda: _newest(
        "ListTransactions", transactional_id_pattern=PATTERNS[0]
    ),
    "bomb of one record": lambda: _produce(one_huge_record("zstd", BOMB_BYTES)),
    "bomb of many records": lambda: _produce(many_tiny_records("gzip", BOMB_BYTES // 20)),
    "batch that says two thousand million": lambda: _produce(
        batch(record(b"lie"), count=1, last_delta=2**31 - 2)
    ),
    "batch of nothing": lambda: _produce(batch(b"", count=1_000)),
}
