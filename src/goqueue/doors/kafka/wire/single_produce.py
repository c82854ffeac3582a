"""Produce as most requests are: one batch for one partition, taken by the broker.

Such a request, and its answer, cost as much to read and write as to store. Here they are a few
`struct` calls; whatever looks different is left to the compiled reader and writer.
"""

import struct
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any, Final
from uuid import UUID

from goqueue.doors.kafka.wire.fields import NO_UUID
from goqueue.doors.kafka.wire.reading import Read, read_uvarint, shape
from goqueue.doors.kafka.wire.writing import Chunks, Write

API_KEY: Final = 0
# KIP-482: lengths are variable from here on, one byte for a name of up to 126 bytes.
FIRST_FLEXIBLE_VERSION: Final = 9
FIRST_VERSION_WITH_TOPIC_ID: Final = 13
LONGEST_NAME_BYTES: Final = 126

_NULL: Final = 0
_ONE: Final = 2  # lengths are sent plus one
_NONE: Final = 1
_NO_TAGS: Final = 0

# Transactional id, acks, timeout, number of topics.
_START: Final = struct.Struct(">BhiB")
# Number of partitions, index.
_PARTITION: Final = struct.Struct(">Bi")
_END: Final = b"\x00\x00\x00"
# Number of partitions; index, error, three offsets and times, no record errors, no error message,
# no tagged fields; those of the topic; throttle time and those of the answer.
_TAKEN: Final = struct.Struct(">BihqqqBBBBiB")

# Fields of a partition's answer if all is well; an error brings more.
_FIELDS: Final = 6

# Clients do not change their time-out.
_timeout: Final = lru_cache(maxsize=64)(lambda value_ms: timedelta(milliseconds=value_ms))


def single_reader(version: int, otherwise: Read) -> Read:
    by_id = version >= FIRST_VERSION_WITH_TOPIC_ID
    request_fields = ("transactional_id", "acks", "timeout", "topic_data")
    make_request = partial(tuple.__new__, shape("ProduceRequest", request_fields))
    named_by = ("topic_id", "partition_data") if by_id else ("name", "partition_data", "topic_id")
    make_topic = partial(tuple.__new__, shape("TopicProduceData", named_by))
    make_part = partial(tuple.__new__, shape("PartitionProduceData", ("index", "records")))

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        try:
            transactional_id, acks, timeout_ms, topics = _START.unpack_from(buffer, position)
            if transactional_id != _NULL or topics != _ONE:
                return otherwise(buffer, position)
            at = position + _START.size
            if by_id:
                end = at + len(NO_UUID)
            else:
                at += 1
                end = at + buffer[at - 1] - 1
                if not at <= end <= at + LONGEST_NAME_BYTES:
                    return otherwise(buffer, position)
            parts, index = _PARTITION.unpack_from(buffer, end)
            length, records_at = read_uvarint(buffer, end + _PARTITION.size)
            records_end = records_at + length - 1
            rest = buffer[records_end : records_end + len(_END)].tobytes()
            if parts != _ONE or not length or rest != _END:
                return otherwise(buffer, position)
            part = make_part((index, buffer[records_at:records_end]))
            if by_id:
                topic_id = buffer[at:end].tobytes()
                topic = make_topic((None if topic_id == NO_UUID else UUID(bytes=topic_id), (part,)))
            else:
                topic = make_topic((str(buffer[at:end], "utf-8"), (part,), None))
        except (struct.error, IndexError, ValueError):
            return otherwise(buffer, position)
        request = make_request((None, acks, _timeout(timeout_ms), (topic,)))
        return request, records_end + len(_END)

    return read


def single_writer(version: int, otherwise: Write) -> Write:
    by_id = version >= FIRST_VERSION_WITH_TOPIC_ID

    def write(out: Chunks, message: Any) -> None:
        try:
            (topic,) = message["responses"]
            (part,) = topic["partition_responses"]
            named = topic["topic_id"].bytes if by_id else topic["name"].encode()
            taken = _TAKEN.pack(
                *(_ONE, part["index"], part["error_code"]),
                *(part["base_offset"], part["log_append_time"], part["log_start_offset"]),
                *(_NONE, _NULL, _NO_TAGS, _NO_TAGS, 0, _NO_TAGS),
            )
            is_whole = not part["record_errors"] and len(part) == _FIELDS and len(message) == 1
        except (KeyError, ValueError, AttributeError, struct.error):
            is_whole = False
        if is_whole and len(named) <= LONGEST_NAME_BYTES:
            out += (b"\x02" if by_id else bytes((_ONE, len(named) + 1)), named, taken)
        else:
            otherwise(out, message)

    return write
