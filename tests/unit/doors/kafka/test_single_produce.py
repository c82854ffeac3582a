"""The quick way to read and write a Produce of one batch, against the compiled one."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.wire import single_produce
from goqueue.doors.kafka.wire.reading import Malformed, compile_reader, decode
from goqueue.doors.kafka.wire.schema import load_schema
from goqueue.doors.kafka.wire.writing import Chunks, compile_writer, uvarint

NEWEST = 13
VERSIONS = range(single_produce.FIRST_FLEXIBLE_VERSION, NEWEST + 1)
TOPIC_ID = UUID("0123456789abcdef0123456789abcdef")


def _compiled_reader(version: int) -> Any:
    request: Any = load_request_schema(single_produce.API_KEY, version)
    return compile_reader(request, load_request_schema(single_produce.API_KEY, NEWEST))


def _read(version: int, data: memoryview) -> tuple[Any, int]:
    """The message and where it ends. `decode` says how many elements there may be."""
    reader = _compiled_reader(version)
    ends: list[int] = []

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        message, end = reader(buffer, position)
        ends.append(end)
        return message, end

    message, _ = decode(read, data, 0)
    return message, ends[0]


def _never(*_: Any) -> Any:
    raise AssertionError("left to the compiled one")


def _request(version: int, topic: str = "orders", records: bytes = b"batch") -> bytes:
    named = topic.encode()
    where = TOPIC_ID.bytes if version >= 13 else uvarint(len(named) + 1) + named
    return (
        b"\x00\x00\x01\x00\x00\x75\x30\x02"
        + where
        + b"\x02\x00\x00\x00\x07"
        + uvarint(len(records) + 1)
        + records
        + b"\x00\x00\x00"
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 20_000])
def test_one_batch_is_read_the_quick_way_and_the_same(version: int, size: int) -> None:
    data = memoryview(_request(version, records=bytes(size)))
    quick, end = single_produce.single_reader(version, _never)(data, 0)
    compiled, compiled_end = _read(version, data)
    assert quick == compiled
    assert end == compiled_end == len(data)
    assert quick._fields == compiled._fields
    assert quick.topic_data[0]._fields == compiled.topic_data[0]._fields
    assert quick.topic_data[0].partition_data[0].records == bytes(size)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_whatever_a_byte_is_changed_to_both_read_the_same(version: int, data: Any) -> None:
    whole = bytearray(_request(version))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = memoryview(bytes(whole))[: data.draw(st.integers(0, len(whole)))]
    compiled_reader = _compiled_reader(version)
    quick_reader = single_produce.single_reader(version, compiled_reader)
    try:
        compiled, _ = decode(compiled_reader, cut, 0)
    except Malformed:
        with pytest.raises(Malformed):
            decode(quick_reader, cut, 0)
    else:
        assert decode(quick_reader, cut, 0)[0] == compiled


def _part(**more: Any) -> dict[str, Any]:
    return {
        "index": 3,
        "error_code": ErrorCode.none,
        "base_offset": 2**40,
        "log_append_time": -1,
        "log_start_offset": 17,
        "record_errors": (),
        **more,
    }


def _answer(version: int, *parts: dict[str, Any], topic: str = "orders") -> dict[str, Any]:
    named = {"topic_id": TOPIC_ID} if version >= 13 else {"name": topic}
    return {"responses": [{**named, "partition_responses": list(parts)}]}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_that_was_taken_is_answered_the_quick_way_and_the_same(version: int) -> None:
    answer = _answer(version, _part())
    quick: Chunks = []
    compiled: Chunks = []
    single_produce.single_writer(version, _never)(quick, answer)
    compile_writer(load_response_schema(single_produce.API_KEY, version))(compiled, answer)
    assert b"".join(quick) == b"".join(compiled)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_other_answer_is_written_as_compiled(version: int) -> None:
    refused = _part(error_code=ErrorCode.invalid_record, error_message="no")
    named = _answer(version, _part())["responses"][0]
    answers = [
        _answer(version, refused),
        _answer(version, _part(), _part()),
        _answer(version, _part(error_message="said")),
        _answer(version, _part(record_errors=({"batch_index": 1},))),
        _answer(
            version,
            {"index": 3, "error_code": ErrorCode.none, "base_offset": 1, "record_errors": ()},
        ),
        {"responses": [named, named]},
        {"responses": ()},
        {"responses": [named], "throttle_time": 9},
    ]
    if version < 13:
        answers.append(_answer(version, _part(), topic="o" * 200))
    compiled_writer = compile_writer(load_response_schema(single_produce.API_KEY, version))
    for answer in answers:
        quick: Chunks = []
        compiled: Chunks = []
        single_produce.single_writer(version, compiled_writer)(quick, answer)
        compiled_writer(compiled, answer)
        assert b"".join(quick) == b"".join(compiled)


def test_the_schemas_of_the_door_use_it() -> None:
    schema = load_schema(single_produce.API_KEY, 12, NEWEST)
    assert schema.read.__qualname__.startswith("single_reader")
    assert schema.write.__qualname__.startswith("single_writer")
