import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.payloads import Encoding, shown_text, shown_value, text_bytes, value_bytes

documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@settings(max_examples=100)
@given(
    st.none() | st.binary() | documents.map(msgspec.json.encode),
    st.sampled_from(["text", "json", "base64"]),
)
def test_what_is_shown_stores_the_same_bytes(data: bytes | None, wanted: Encoding) -> None:
    value, encoding = shown_value(data, wanted)
    written = msgspec.Raw(msgspec.json.encode(value))

    assert value_bytes(written, encoding) == data


@settings(max_examples=100)
@given(st.none() | st.binary(), st.sampled_from(["text", "base64"]))
def test_keys_and_headers_likewise(data: bytes | None, wanted: str) -> None:
    text, encoding = shown_text(data, "text" if wanted == "text" else "base64")

    assert text_bytes(text, encoding, "key") == data


@settings(max_examples=100)
@given(documents)
def test_a_document_is_stored_as_it_was_written(document: object) -> None:
    written = msgspec.json.encode(document)

    assert value_bytes(msgspec.Raw(written), "json") == written
    if document is not None and not isinstance(document, str):
        assert value_bytes(msgspec.Raw(written), None) == written


@pytest.mark.parametrize("text", ["A", "AA=", "AA==AA==", "A A=", "AA\n==", "€€€€", "-_-_"])
def test_base64_is_read_strictly(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        text_bytes(text, "base64", "key")
    assert str(refused.value).startswith("key: ")
