"""Options that nobody declares, and imports that bring only options: taken as Confluent's does."""

import pytest

from goqueue.schema_formats import (
    InvalidContent,
    InvalidSchema,
    ResolvedReference,
    SchemaSource,
    SchemaType,
    incompatibilities,
    make_validator,
    parse,
)
from goqueue.schema_formats.protobuf import serialized

TEXT = """syntax = "proto3";
package shop;
import "validate/validate.proto";
import "google/protobuf/timestamp.proto";
import public 'gateway/annotations.proto';
option java_package = "com.shop";
option (gateway.swagger) = { info: { title: "[a;b]" version: "1" }; tags: ["x", "y"] };
// option (not.this) = 1;
message Order {
  option (validate.disabled) = true;
  string id = 1 [(validate.rules).string = {min_len: 1, pattern: "^[a-z],;]+$"}, deprecated = true];
  int32 count = 2 [(validate.rules).int32.gt = 0, (my.other) = "a"];
  google.protobuf.Timestamp at = 3;
  repeated int32 packed = 4 [packed = false];
  oneof choice {
    option (validate.required) = true;
    string a = 5;
  }
}
enum State {
  NEW = 0 [(label) = "new"];
  OLD = 1;
}
"""


def source(text: str, **references: str) -> SchemaSource:
    resolved = tuple(ResolvedReference(name, one) for name, one in references.items())
    return SchemaSource(SchemaType.PROTOBUF, text, resolved)


def test_they_are_kept_in_the_text() -> None:
    parsed = parse(source(TEXT))
    assert parsed.canonical == TEXT.strip()
    assert parsed.record_name == "shop.Order"
    assert parse(source(parsed.canonical)) == parsed
    spaced = TEXT.replace(" = { ", "={\n  ").replace("(my.other)", "( my.other )")
    assert parse(source(spaced)).fingerprint == parsed.fingerprint
    other = parse(source(TEXT.replace('"a"];', '"b"];')))
    assert other.fingerprint != parsed.fingerprint


def test_the_rest_counts_as_ever() -> None:
    assert serialized(source(TEXT))
    make_validator(source(TEXT))(b"\x00\x0a\x02hi")
    with pytest.raises(InvalidContent):
        make_validator(source(TEXT))(b"\x00\x08\x02")
    changed = TEXT.replace("int32 count = 2", "string count = 2")
    kinds = [found.kind for found in incompatibilities(source(changed), source(TEXT))]
    assert kinds == ["FIELD_SCALAR_KIND_CHANGED"]
    assert incompatibilities(source(TEXT), source(TEXT)) == []


def test_declared_options_stay() -> None:
    text = (
        'syntax = "proto3"; import "confluent/meta.proto";'
        ' message A { string b = 1 [(confluent.field_meta).doc = "d", (x.y) = 1]; }'
    )
    assert parse(source(text)).canonical == text
    without = parse(source(text.replace(", (x.y) = 1", "")))
    assert "confluent.field_meta" in without.canonical
    assert without.fingerprint != parse(source(text)).fingerprint


def test_references_may_have_them_too() -> None:
    part = 'syntax = "proto3"; import "no.proto"; message P { string x = 1 [(n.o) = 1]; }'
    text = 'syntax = "proto3"; import "part.proto"; message A { P p = 1; }'
    parsed = parse(source(text, **{"part.proto": part}))
    assert "(n.o)" not in parsed.canonical


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto3"; import "types.proto"; message A { types.B b = 1; }',
        'syntax = "proto3"; message A { string b = 1 [(x.y) = ]; }',
        'syntax = "proto3"; message A { string b = 1 [(x.y) = 1; }',
        'syntax = "proto3"; option (x.y) = 1',
        'syntax = "proto3"; message A { string b = 1 [(x.y) = 1]; string c = 1; }',
        'syntax = "proto3"; message A { string b = 1 [unheard_of = 1]; }',
    ],
)
def test_what_is_wrong_otherwise_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse(source(text))
    assert refused.value.message
