from uuid import UUID

import pytest

from goqueue.model.schemas.ids import SchemaUse, schema_use

GUID = UUID("8df6eb3c-1f2a-4d43-9d3e-0c8a5d1f2b3c")


def test_the_prefix_of_a_payload() -> None:
    assert schema_use("value", b"\x00\x00\x00\x01\x02rest", []) == SchemaUse(258, None, b"rest")


@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00\x01", b'{"a": 1}', b"\x01\x00\x00\x00\x01x"])
def test_data_without_a_prefix(data: bytes) -> None:
    assert schema_use("value", data, [("other", b"\x00\x00\x00\x00\x01")]) is None


def test_a_header_goes_before_the_prefix() -> None:
    headers = [("__value_schema_id", b"\x00\x00\x00\x00\x07")]
    data = b"\x00\x00\x00\x00\x01x"
    assert schema_use("value", data, headers) == SchemaUse(7, None, data)
    assert schema_use("key", data, headers) == SchemaUse(1, None, b"x")


def test_a_guid_with_the_indexes_of_protobuf() -> None:
    headers = [("__key_schema_id", b"\x01" + GUID.bytes + b"\x02\x04")]
    assert schema_use("key", b"data", headers) == SchemaUse(-1, GUID, b"\x02\x04data")


@pytest.mark.parametrize("value", [None, b"", b"\x00\x01", b"\x02\x00\x00\x00\x01", b"\x01" * 16])
def test_a_header_that_makes_no_sense(value: bytes | None) -> None:
    with pytest.raises(ValueError, match="__value_schema_id must be a zero byte"):
        schema_use("value", b"x", [("__value_schema_id", value)])
