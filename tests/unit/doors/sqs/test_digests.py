"""Digests against values that the service itself gave."""

import base64

import pytest

from goqueue.doors.sqs.digests import attributes_digest, body_digest
from goqueue.doors.sqs.requests import AttributeValue


def text(value: str, data_type: str = "String") -> AttributeValue:
    return AttributeValue(data_type=data_type, string_value=value)


def binary(value: bytes) -> AttributeValue:
    return AttributeValue(data_type="Binary", binary_value=base64.b64encode(value).decode())


@pytest.mark.parametrize(
    ("attributes", "digest"),
    [
        ({"Foo": text("Bar")}, "ae7155c6026991b6d54b11589678bf9c"),
        (
            {"Help.Me": text("Me"), "Hello": text("There"), "General": text("Kenobi")},
            "4c360f3fdafd970e05fae2f149d997f5",
        ),
        ({"Hello": text("There")}, "a311262e065454b75da111d535b8dacd"),
        (
            {
                "attr1": binary(
                    b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01"
                )
            },
            "8cbe4db156db8a94db8b801b7addb984",
        ),
    ],
)
def test_attributes(attributes: dict[str, AttributeValue], digest: str) -> None:
    assert attributes_digest(attributes) == digest


def test_no_attributes_have_no_digest() -> None:
    assert attributes_digest({}) is None


def test_the_type_counts() -> None:
    assert attributes_digest({"n": text("1", "Number")}) != attributes_digest({"n": text("1")})


def test_body() -> None:
    assert body_digest(b"msg") == "6e2baaf3b97dbeef01c0043275f9a0e7"
