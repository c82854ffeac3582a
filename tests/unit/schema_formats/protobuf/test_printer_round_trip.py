"""Any descriptor, printed and parsed again, is the same descriptor."""

import base64
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor_pb2 import (
    EDITION_2023,
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.schema_formats import SchemaSource, SchemaType
from goqueue.schema_formats.protobuf import parse, serialized
from goqueue.schema_formats.protobuf.printer import print_file

# FieldDescriptorProto.Type by the sort of default value it takes.
NUMBERS = [3, 4, 5, 6, 7, 13, 15, 16, 17, 18]
SCALARS = [*NUMBERS, 1, 2, 8, 9, 12]
KEYS = [*NUMBERS, 8, 9]
STRING, BYTES = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES
GROUP, MESSAGE = FieldDescriptorProto.TYPE_GROUP, FieldDescriptorProto.TYPE_MESSAGE
ENUM, INT32 = FieldDescriptorProto.TYPE_ENUM, FieldDescriptorProto.TYPE_INT32
OPTIONAL, REQUIRED = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REQUIRED
REPEATED = FieldDescriptorProto.LABEL_REPEATED
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
FIELD_NUMBERS = st.integers(1, 18_999)


@dataclass
class Drawing:
    """A file in the making; names are numbered so that none is taken twice."""

    draw: Any
    syntax: str
    names: int = 0
    messages: list[str] = field(default_factory=list)
    enums: list[tuple[str, str]] = field(default_factory=list)

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def chance(self) -> bool:
        return bool(self.draw(st.booleans()))

    def enum(self, scope: str) -> EnumDescriptorProto:
        enum = EnumDescriptorProto(name=self.name("E"))
        for number in [0, *self.draw(st.lists(st.integers(-9, 9).filter(bool), unique=True))]:
            value = enum.value.add(name=self.name("V"), number=number)
            if self.chance():
                value.options.deprecated = True
        if self.chance():
            enum.reserved_range.add(start=20, end=self.draw(st.sampled_from([20, 30, 2**31 - 1])))
            enum.reserved_name.append("OLD")
        self.enums.append((f"{scope}.{enum.name}", enum.value[0].name))
        return enum

    def message(self, scope: str, depth: int) -> DescriptorProto:
        message = DescriptorProto(name=self.name("M"))
        path = f"{scope}.{message.name}"
        self.messages.append(path)
        if self.chance():
            message.enum_type.append(self.enum(path))
        numbers = self.draw(st.lists(FIELD_NUMBERS, unique=True, max_size=6))
        for number in numbers:
            if depth < 3 and self.draw(st.integers(0, 3)) == 0:
                message.nested_type.append(self.message(path, depth + 1))
            self.add_field(message, path, number)
        self.add_oneof(message)
        if self.chance():
            message.reserved_range.add(start=20_000, end=self.draw(st.integers(20_001, 20_003)))
            message.reserved_name.append("old")
            message.options.deprecated = True
        if self.syntax == "" and self.chance():
            message.extension_range.add(
                start=30_000, end=self.draw(st.sampled_from([30_001, 2**29]))
            )
        # protoc puts the oneofs that stand for `optional` behind all others.
        for described in message.field:
            if described.proto3_optional:
                described.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{described.name}")
        return message

    def add_field(self, message: DescriptorProto, path: str, number: int) -> None:
        sort = self.draw(st.sampled_from(["scalar", "scalar", "enum", "message", "map", "group"]))
        if sort == "map":
            self.add_map(message, path, number)
        elif sort == "group" and self.syntax == "":
            body = message.nested_type.add(name=self.name("G"))
            body.field.add(name="n", number=1, type=INT32, label=OPTIONAL)
            message.field.add(
                name=body.name.lower(),
                number=number,
                type=GROUP,
                label=REPEATED,
                type_name=f"{path}.{body.name}",
            )
        else:
            described = self.typed(message.field.add(name=self.name("f"), number=number), sort)
            described.label = self.label(described)
            self.decorate(described)

    def add_map(self, message: DescriptorProto, path: str, number: int) -> None:
        name = self.name("m")
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        key_type = self.draw(st.sampled_from(KEYS))
        entry.field.add(name="key", number=1, type=key_type, label=OPTIONAL)
        self.typed(entry.field.add(name="value", number=2, label=OPTIONAL), "message")
        message.field.add(
            name=name, number=number, type=MESSAGE, label=REPEATED, type_name=f"{path}.{entry.name}"
        )

    def add_oneof(self, message: DescriptorProto) -> None:
        taken = {described.number for described in message.field}
        numbers = self.draw(st.lists(FIELD_NUMBERS, unique=True, max_size=3))
        members = [number for number in numbers if number not in taken]
        if members:
            message.oneof_decl.add(name=self.name("o"))
        for number in members:
            added = message.field.add(name=self.name("f"), number=number, oneof_index=0)
            self.typed(added, "scalar").label = OPTIONAL

    def typed(self, described: FieldDescriptorProto, sort: str) -> FieldDescriptorProto:
        if sort == "enum" and self.enums:
            described.type = ENUM
            described.type_name = self.draw(st.sampled_from(self.enums))[0]
        elif sort == "message":
            described.type = MESSAGE
            described.type_name = self.draw(st.sampled_from(self.messages))
        else:
            described.type = self.draw(st.sampled_from(SCALARS))
        return described

    def label(self, described: FieldDescriptorProto) -> Any:
        if self.syntax == "":
            return self.draw(st.sampled_from([OPTIONAL, REQUIRED, REPEATED]))
        label = self.draw(st.sampled_from([OPTIONAL, OPTIONAL, REPEATED]))
        if self.syntax == "proto3" and label == OPTIONAL and self.chance():
            described.proto3_optional = True
        return label

    def decorate(self, described: FieldDescriptorProto) -> None:
        if self.chance():
            described.options.deprecated = True
        if self.chance():
            described.json_name = f"@{described.name}{self.draw(TEXTS)}".replace("\0", "")
        is_number = described.type in NUMBERS
        if described.label == REPEATED and is_number and self.syntax != "editions":
            described.options.packed = self.chance()
        if self.syntax != "proto3" and described.label != REPEATED and self.chance():
            self.add_default(described, is_number=is_number)

    def add_default(self, described: FieldDescriptorProto, *, is_number: bool) -> None:
        if is_number:
            described.default_value = str(self.draw(st.integers(0, 2**31 - 1)))
        elif described.type in (1, 2):
            described.default_value = self.draw(st.sampled_from(["inf", "-inf", "nan", "1.5"]))
        elif described.type == STRING:
            described.default_value = self.draw(TEXTS)
        elif described.type == BYTES:
            described.default_value = self.draw(st.sampled_from(["", "abc", r"\000\377\"\'\\\n"]))
        elif described.type == ENUM:
            described.default_value = dict(self.enums)[described.type_name]


@st.composite
def files(draw: Any) -> FileDescriptorProto:
    syntax = draw(st.sampled_from(["", "proto3", "editions"]))
    file = FileDescriptorProto(name="default", syntax=syntax or None)
    if syntax == "editions":
        file.edition = EDITION_2023
    file.MergeFrom(FileDescriptorProto(package=draw(st.sampled_from([None, "p", "p.q"]))))
    scope = f".{file.package}" if file.package else ""
    drawing = Drawing(draw, syntax)
    for _ in range(draw(st.integers(1, 3))):
        if drawing.chance():
            file.enum_type.append(drawing.enum(scope))
        file.message_type.append(drawing.message(scope, 1))
    if drawing.chance():
        method = file.service.add(name="S").method.add(name="Call")
        method.input_type = method.output_type = drawing.messages[0]
        if drawing.chance():
            method.client_streaming = True
    if drawing.chance():
        file.dependency.append("google/protobuf/any.proto")
        file.options.java_package = draw(TEXTS)
    return file


def source(text: str) -> SchemaSource:
    return SchemaSource(SchemaType.PROTOBUF, text)


def as_base64(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode("ascii")


def described(text: str) -> FileDescriptorProto:
    return FileDescriptorProto.FromString(base64.b64decode(serialized(source(text))))


@settings(max_examples=50, deadline=None)
@given(files())
def test_descriptor_to_text_to_descriptor(file: FileDescriptorProto) -> None:
    text = print_file(file)
    assert described(text) == file
    parsed = parse(source(text))
    assert parsed.canonical == text
    assert parse(source(as_base64(file))) == parsed


@settings(max_examples=25, deadline=None)
@given(files())
def test_normal_form_is_the_same_again(file: FileDescriptorProto) -> None:
    normal = parse(source(as_base64(file)), normalize=True)
    assert parse(source(normal.canonical), normalize=True) == normal
    assert parse(source(serialized(source(normal.canonical))), normalize=True) == normal
