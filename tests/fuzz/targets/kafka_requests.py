"""A Kafka frame: header and body of any operation in any version served."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any, Final

from kio.index import load_request_schema

from goqueue.doors.kafka.exchange import Exchange
from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.operation import Operation
from goqueue.doors.kafka.request_limits import RequestLimits
from goqueue.doors.kafka.wire.fields import fields_of
from goqueue.doors.kafka.wire.reading import Malformed, compile_reader, decode
from goqueue.doors.kafka.wire.request_header import read_request_header
from goqueue.doors.kafka.wire.writing import Chunks, Write, compile_writer
from goqueue.model.broker_config import broker_config
from tests.fuzz.target import Finding, Target, Verdict

LIMITS: Final = RequestLimits(broker_config({}), OPERATIONS)
_MS: Final = timedelta(milliseconds=1)


def run(data: bytes) -> Verdict:
    frame = memoryview(bytearray(data))
    try:
        header = read_request_header(frame)
        operation = OPERATIONS.get(header.api_key)
        if operation is None or not _is_served(operation, header.version):
            return "not served"
        exchange = Exchange(header, operation, frame)
        exchange.read(LIMITS)
        if not exchange.is_decoded:
            asyncio.run(exchange.decode_in_slices(LIMITS))
    except Malformed as error:
        return "malformed", str(error)
    _check_round_trip(operation, exchange.version, exchange.request)
    return header, exchange.elements


def _is_served(operation: Operation, version: int) -> bool:
    return operation.min_version <= version <= operation.max_version


def _check_round_trip(operation: Operation, version: int, request: Any) -> None:
    """What was read is written as that version writes it, and read again."""
    entity: Any = load_request_schema(operation.api_key, version)
    chunks: Chunks = []
    _writer(operation.api_key, version)(chunks, _message(entity, request))
    written = memoryview(b"".join(chunks))
    newest: Any = load_request_schema(operation.api_key, operation.max_version)
    again, _ = decode(_reader(entity, newest), written, 0)
    if again != request:
        raise Finding(f"{operation.name} {version}: {request!r} is read back as {again!r}")


_reader = cache(compile_reader)


@cache
def _writer(api_key: int, version: int) -> Write:
    return compile_writer(load_request_schema(api_key, version))


def _message(entity: Any, request: Any) -> Mapping[str, Any]:
    """As our writer takes messages: mappings, and milliseconds instead of time spans.

    A tagged field that was not sent is not written either.
    """
    message = {}
    for field in fields_of(entity):
        value = getattr(request, field.name)
        if field.tag is not None and value is field.default:
            continue
        if field.entity is not None and value is not None:
            inner = field.entity
            if field.is_array:
                value = [_message(inner, each) for each in value]
            else:
                value = _message(inner, value)
        elif isinstance(value, timedelta):
            value //= _MS
        message[field.name] = value
    return message


TARGET: Final = Target(
    name="kafka_requests",
    promise="a frame is read or refused as malformed; what was read, written again, reads the same",
    run=run,
)
