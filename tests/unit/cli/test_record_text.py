"""Messages as JSON: what is printed can be sent again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.failures import CommandFailed
from goqueue.cli.messages.record_text import parse_json_line, shown, shown_headers

optional_bytes = st.none() | st.binary(max_size=30)


@given(
    key=optional_bytes,
    value=optional_bytes,
    headers=st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3).map(tuple),
    timestamp=st.integers(0, 2**48),
)
def test_round_trip(
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
    timestamp: int,
) -> None:
    line = json.dumps(
        {
            "topic": "t",
            "offset": 3,
            "partition": 1,
            "timestamp": timestamp,
            **shown(key, "key", "keyEncoding"),
            **shown(value, "value", "encoding"),
            "headers": shown_headers(headers),
        }
    )
    assert parse_json_line(line.encode(), 1) == (key, value, headers, 1, timestamp)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('{"value": "text"}', b"text"),
        ('{"value": null}', None),
        ('{"value": {"n": [1, 2]}}', b'{"n":[1,2]}'),
        ('{"value": 5}', b"5"),
        ('{"value": "x", "encoding": "json"}', b'"x"'),
        ('{"value": "AAE=", "encoding": "base64"}', b"\0\1"),
    ],
)
def test_values(line: str, value: bytes | None) -> None:
    assert parse_json_line(line.encode(), 1).value == value


def test_headers_as_an_object() -> None:
    message = parse_json_line(b'{"value": 1, "headers": {"a": "b", "c": null}}', 1)
    assert message.headers == (("a", b"b"), ("c", None))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 9: not valid JSON"),
        ("[]", 'line 9: not an object with a "value"'),
        ('{"key": "k"}', 'line 9: not an object with a "value"'),
        ('{"value": 1, "vlaue": 2}', "line 9: unknown field 'vlaue'"),
        ('{"value": "?", "encoding": "base64"}', "line 9: value: not valid base64"),
        ('{"value": {}, "encoding": "base64"}', "line 9: value: with encoding base64"),
        ('{"value": "", "encoding": "latin1"}', "line 9: value: encoding 'latin1'"),
        ('{"value": 1, "partition": -1}', "line 9: partition: -1 is not a number from 0"),
        ('{"value": 1, "partition": true}', "line 9: partition: True"),
        ('{"value": 1, "headers": [["a", "b"]]}', "line 9: headers: neither"),
        ('{"value": 1, "headers": 5}', "line 9: headers: neither"),
    ],
)
def test_mistakes_name_line_and_field(line: str, reason: str) -> None:
    with pytest.raises(CommandFailed, match=reason):
        parse_json_line(line.encode(), 9)
