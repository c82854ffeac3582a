import base64
import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.doors.sqs.digests import attributes_digest
from goqueue.doors.sqs.message_headers import (
    ATTRIBUTES_MAX,
    attribute_headers,
    attributes_of,
    body_of,
    derived_message_id,
    is_attribute_name,
    is_sendable,
    new_message_id,
)
from goqueue.doors.sqs.requests import AttributeValue
from goqueue.model.queues.fifo import number_at, number_text
from goqueue.model.queues.sqs_headers import system_facts
from goqueue.model.records import Header, Record

TEXTS = st.text(min_size=1).filter(is_sendable)
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True).filter(is_attribute_name) | st.just(
    "sqs-message-id"
)
ATTRIBUTES = st.dictionaries(
    NAMES.filter(lambda name: not name.startswith("goqueue-")),
    st.builds(
        AttributeValue,
        data_type=st.sampled_from(["String", "Number", "String.mine"]),
        string_value=TEXTS,
    )
    | st.builds(
        AttributeValue,
        data_type=st.sampled_from(["Binary", "Binary.gif"]),
        binary_value=st.binary(min_size=1).map(lambda data: base64.b64encode(data).decode()),
    ),
    max_size=ATTRIBUTES_MAX,
)


def record(*headers: Header, value: bytes | None = b"") -> Record:
    return Record(offset=7, timestamp_ms=1, key=None, value=value, headers=headers)


@given(ATTRIBUTES)
def test_attributes_come_back_as_they_were_sent(attributes: dict[str, AttributeValue]) -> None:
    stored = record(("sqs-message-id", b"id"), *attribute_headers(attributes))
    assert attributes_of(stored, is_base64=False) == attributes
    assert system_facts(stored.headers).message_id == "id"


@pytest.mark.parametrize("other", ["ä", "not base64"])
def test_the_type_says_which_value_counts(other: str) -> None:
    text = AttributeValue(data_type="String", string_value="x", binary_value=other)
    assert list(attribute_headers({"a": text})) == [("a", b"x")]
    plain = AttributeValue(data_type="String", string_value="x")
    assert attributes_digest({"a": text}) == attributes_digest({"a": plain})


def test_headers_of_other_producers() -> None:
    found = attributes_of(
        record(
            ("trace", "grün".encode()),
            ("blob", b"\xff\x00"),
            ("nothing", None),
            ("empty", b""),
            ("goqueue-dlq-topic", b"orders"),
            ("not a name", b"x"),
            ("aws.mine", b"x"),
        ),
        is_base64=False,
    )
    assert found == {
        "trace": AttributeValue(data_type="String", string_value="grün"),
        "blob": AttributeValue(data_type="Binary", binary_value="/wA="),
    }


def test_no_more_attributes_than_sqs_has() -> None:
    stored = record(*((f"h{n}", b"x") for n in range(20)))
    assert len(attributes_of(stored, is_base64=True)) == ATTRIBUTES_MAX


@pytest.mark.parametrize(
    ("value", "body"),
    [
        (None, ("", False)),
        (b"", ("", False)),
        ("ü\r\n\t".encode(), ("ü\r\n\t", False)),
        (b"\xff\xfe", ("//4=", True)),
        (b"a\x00b", ("YQBi", True)),
    ],
)
def test_bodies(value: bytes | None, body: tuple[str, bool]) -> None:
    assert body_of(value) == body


def test_a_base64_body_says_so() -> None:
    found = attributes_of(record(value=b"\xff"), is_base64=True)
    assert found["body-encoding"].string_value == "base64"


@pytest.mark.parametrize("text", ["\x00", "a\x0b", "\x1f", "\ufffe", "\uffff"])
def test_characters_that_messages_cannot_hold(text: str) -> None:
    assert not is_sendable(text)


@pytest.mark.parametrize("text", ["", "\t\n\r", "~", "\u0080", "\ud7ff", "\ufffd", "\U0010ffff"])
def test_characters_that_messages_can_hold(text: str) -> None:
    assert is_sendable(text)


@pytest.mark.parametrize("name", ["", "a b", ".a", "a.", "a..b", "AWS.x", "Amazon.x", "x" * 257])
def test_bad_attribute_names(name: str) -> None:
    assert not is_attribute_name(name)


def test_message_ids() -> None:
    found = {new_message_id() for _ in range(1_000)}
    assert len(found) == 1_000
    for each in found:
        assert re.fullmatch(
            r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", each
        )


def test_derived_message_ids_are_stable_and_distinct() -> None:
    topic = UUID(int=1)
    assert derived_message_id(topic, 0, 5) == derived_message_id(topic, 0, 5)
    assert len({derived_message_id(topic, p, o) for p in range(3) for o in range(100)}) == 300


def test_sequence_numbers_grow() -> None:
    numbers = [
        number_text(number_at(*at)) for at in [(1, 0), (1, 1), (2, 0), (10**12, 0), (10**13, 7)]
    ]
    assert numbers == sorted(numbers)
    assert all(len(number) == 20 for number in numbers)
