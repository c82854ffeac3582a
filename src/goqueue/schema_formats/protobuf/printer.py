"""A file's descriptor as .proto text, in one layout; comments are gone.

Messages keep their order: clients number them by it in every message they write (Confluent's wire
format). Synthetic messages, the entries of maps and the bodies of groups, count there too, so a
nested message is printed behind as many of them as stood before it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.schema_formats.protobuf.options import option_pairs, quoted

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
        MethodDescriptorProto,
        OneofDescriptorProto,
        ServiceDescriptorProto,
    )

    _Span = TypeVar(
        "_Span",
        DescriptorProto.ReservedRange,
        DescriptorProto.ExtensionRange,
        EnumDescriptorProto.EnumReservedRange,
    )

# protobuf/descriptor.proto: numbers of FieldDescriptorProto.Type and Label.
SCALAR_NAMES: Final = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
_STRING, _GROUP, _BYTES = 9, 10, 12
_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3
# Field numbers end at 2^29 - 1, those of message sets and of enum values at 2^31 - 1.
_MAX_FIELD_END: Final = frozenset({2**29, 2**31 - 1})
_MAX_ENUM_NUMBER: Final = 2**31 - 1
_INDENT: Final = "  "
_MAP_ENTRY: Final = frozenset({"map_entry"})
_KINDS: Final = {
    "message": "type",
    "enum": "type",
    "oneof": "oneof",
    "extend": "extend",
    "service": "service",
}


def print_file(file: "FileDescriptorProto", *, normalize: bool = False) -> str:
    """With `normalize`, also what has no meaning by its order is put into one."""
    return "\n".join(_FilePrinter(file, normalize=normalize).lines()) + "\n"


def default_json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line if line else "" for line in lines)


def _spaced(sections: Iterable[Sequence[str]]) -> list[str]:
    """With an empty line between sections, as Confluent's registry has it."""
    lines: list[str] = []
    for section in filter(None, sections):
        lines += ["", *section] if lines else section
    return lines


def _grouped(parts: Iterable[list[str]]) -> Iterator[list[str]]:
    """Neighbours of a kind in one section: messages and enums, oneofs, fields and so on."""
    for _, group in groupby(parts, key=lambda part: _KINDS.get(part[0].split(" ")[0])):
        yield [line for part in group for line in part]


def _block(head: str, body: Sequence[str]) -> list[str]:
    return [f"{head} {{", *_indented(body), "}"] if body else [f"{head} {{}}"]


def _brackets(pairs: Sequence[str]) -> str:
    return f" [{', '.join(pairs)}]" if pairs else ""


def _statements(pairs: Iterable[str]) -> list[str]:
    return [f"option {pair};" for pair in pairs]


def _range(start: int, last: int, *, is_max: bool) -> str:
    if is_max:
        return f"{start} to max"
    return str(start) if start == last else f"{start} to {last}"


class _FilePrinter:
    def __init__(self, file: "FileDescriptorProto", *, normalize: bool) -> None:
        self._file = file
        self._normalize = normalize
        self._has_editions = file.syntax == "editions" or file.edition >= 1000
        self._is_proto3 = file.syntax == "proto3"

    def lines(self) -> list[str]:
        file = self._file
        scope = f".{file.package}" if file.package else ""
        parts = [*self._types(scope, file.message_type, [], file.extension)]
        parts += map(self._enum, file.enum_type)
        parts += map(self._service, file.service)
        package = [f"package {file.package};"] if file.package else []
        head = [[self._syntax(), *package], self._imports()]
        return _spaced([*head, _statements(option_pairs(file.options)), *_grouped(parts)])

    def _syntax(self) -> str:
        if self._has_editions:
            return 'edition = "2023";'
        return f'syntax = "{self._file.syntax or "proto2"}";'

    def _imports(self) -> list[str]:
        file = self._file
        imports = []
        for index, name in enumerate(file.dependency):
            rank, word = 0, ""
            if index in file.public_dependency:
                rank, word = 2, "public "
            elif index in file.weak_dependency:
                rank, word = 1, "weak "
            imports.append((rank, f"import {word}{quoted(name)};"))
        if self._normalize:
            imports.sort()
        return [line for _, line in imports]

    def _types(
        self,
        scope: str,
        messages: Iterable["DescriptorProto"],
        members: Sequence["_Member"],
        extensions: Iterable["FieldDescriptorProto"],
    ) -> Iterator[list[str]]:
        """Fields, messages and extensions of one scope, in an order that keeps messages' places."""
        waiting = list(messages)
        bodies = {f"{scope}.{message.name}": message for message in waiting}
        blocks = _extend_blocks(extensions)
        members = [*members, *(block for block in blocks if block.synthetic(bodies))]
        synthetic = {name for member in members for name in member.synthetic(bodies)}
        for member in members:
            for _ in member.synthetic(bodies):
                while waiting and waiting[0].name not in synthetic:
                    yield self._message(scope, waiting.pop(0))
                del waiting[:1]
            yield self._member(scope, member, bodies)
        for message in waiting:
            if message.name not in synthetic:
                yield self._message(scope, message)
        for block in blocks:
            if not block.synthetic(bodies):
                yield self._member(scope, block, bodies)

    def _message(self, scope: str, message: "DescriptorProto") -> list[str]:
        body = self._body(f"{scope}.{message.name}", message)
        return _block(f"message {message.name}", body)

    def _body(self, scope: str, message: "DescriptorProto") -> list[str]:
        reserved = [
            _range(span.start, span.end - 1, is_max=span.end in _MAX_FIELD_END)
            for span in self._by_start(message.reserved_range)
        ]
        head = [
            self._reserved(reserved, message.reserved_name),
            _statements(option_pairs(message.options, skip=_MAP_ENTRY)),
        ]
        extensions = []
        for span in self._by_start(message.extension_range):
            numbers = _range(span.start, span.end - 1, is_max=span.end in _MAX_FIELD_END)
            extensions.append(f"extensions {numbers}{_brackets(option_pairs(span.options))};")
        members = _members(message, by_number=self._normalize)
        parts = [*self._types(scope, message.nested_type, members, message.extension)]
        parts += map(self._enum, message.enum_type)
        return _spaced([*head, extensions, *_grouped(parts)])

    def _by_start(self, spans: Iterable["_Span"]) -> "list[_Span]":
        ordered = list(spans)
        if self._normalize:
            ordered.sort(key=lambda span: (span.start, span.end))
        return ordered

    def _reserved(self, numbers: Sequence[str], names: Iterable[str]) -> list[str]:
        words = list(names) if self._has_editions else [quoted(name) for name in names]
        if self._normalize:
            words.sort()
        return [f"reserved {', '.join(values)};" for values in (numbers, words) if values]

    def _member(
        self, scope: str, member: "_Member", bodies: dict[str, "DescriptorProto"]
    ) -> list[str]:
        if member.head is None:
            return self._field(scope, member.fields[0], bodies, in_oneof=False)
        options = _statements(option_pairs(member.oneof.options)) if member.oneof else []
        fields: list[str] = []
        for field in member.fields:
            fields += self._field(scope, field, bodies, in_oneof=member.oneof is not None)
        return _block(member.head, _spaced([options, fields]))

    def _field(
        self,
        scope: str,
        field: "FieldDescriptorProto",
        bodies: dict[str, "DescriptorProto"],
        *,
        in_oneof: bool,
    ) -> list[str]:
        body = bodies.get(field.type_name)
        options = _brackets([*self._special_options(field), *option_pairs(field.options)])
        if body is not None and _is_entry(body):
            key, value = sorted(body.field, key=lambda part: part.number)
            kind = f"map<{_type_name(key)}, {_type_name(value)}>"
            return [f"{kind} {field.name} = {field.number}{options};"]
        label = "" if in_oneof else self._label(field)
        if field.type == _GROUP and body is not None:
            head = f"{label}group {body.name} = {field.number}{options}"
            return _block(head, self._body(f"{scope}.{body.name}", body))
        return [f"{label}{_type_name(field)} {field.name} = {field.number}{options};"]

    def _label(self, field: "FieldDescriptorProto") -> str:
        if field.label == _REPEATED:
            return "repeated "
        if field.label == _REQUIRED:
            return "required "
        written = field.proto3_optional or not (self._is_proto3 or self._has_editions)
        return "optional " if written else ""

    def _special_options(self, field: "FieldDescriptorProto") -> list[str]:
        pairs = []
        if field.HasField("default_value"):
            value = field.default_value
            if field.type == _STRING:
                value = quoted(value)
            elif field.type == _BYTES:
                value = f'"{value}"'  # escaped already, descriptor.proto says
            pairs.append(f"default = {value}")
        if (
            field.HasField("json_name")
            and not field.extendee
            and field.json_name != default_json_name(field.name)
        ):
            pairs.append(f"json_name = {quoted(field.json_name)}")
        return pairs

    def _enum(self, enum: "EnumDescriptorProto") -> list[str]:
        values = list(enum.value)
        if self._normalize:
            # The first value is the default, and in proto3 has to be zero: it stays.
            values[1:] = sorted(values[1:], key=lambda value: (value.number, value.name))
        reserved = [
            _range(span.start, span.end, is_max=span.end == _MAX_ENUM_NUMBER)
            for span in self._by_start(enum.reserved_range)
        ]
        lines = self._reserved(reserved, enum.reserved_name)
        lines += _statements(option_pairs(enum.options))
        lines += [
            f"{value.name} = {value.number}{_brackets(option_pairs(value.options))};"
            for value in values
        ]
        return _block(f"enum {enum.name}", lines)

    def _service(self, service: "ServiceDescriptorProto") -> list[str]:
        methods = [line for method in service.method for line in self._method(method)]
        options = _statements(option_pairs(service.options))
        return _block(f"service {service.name}", _spaced([options, methods]))

    def _method(self, method: "MethodDescriptorProto") -> list[str]:
        takes = "stream " * method.client_streaming + method.input_type
        gives = "stream " * method.server_streaming + method.output_type
        head = f"rpc {method.name} ({takes}) returns ({gives})"
        options = _statements(option_pairs(method.options))
        return _block(head, options) if options else [f"{head};"]


class _Member:
    """A field, a oneof with its fields, or the fields that extend one message."""

    def __init__(
        self,
        fields: "list[FieldDescriptorProto]",
        head: str | None = None,
        oneof: "OneofDescriptorProto | None" = None,
    ) -> None:
        self.fields = fields
        self.head = head
        self.oneof = oneof

    def synthetic(self, bodies: dict[str, "DescriptorProto"]) -> list[str]:
        """The messages of this scope that are no more than the types of these fields."""
        names = []
        for field in self.fields:
            body = bodies.get(field.type_name)
            if body is not None and (field.type == _GROUP or _is_entry(body)):
                names.append(body.name)
        return names


def _members(message: "DescriptorProto", *, by_number: bool) -> list[_Member]:
    fields = list(message.field)
    if by_number:
        fields.sort(key=lambda field: field.number)
    members: list[_Member] = []
    oneofs: dict[int, _Member] = {}
    for field in fields:
        if not field.HasField("oneof_index") or field.proto3_optional:
            members.append(_Member([field]))
        elif field.oneof_index in oneofs:
            oneofs[field.oneof_index].fields.append(field)
        else:
            oneof = message.oneof_decl[field.oneof_index]
            member = _Member([field], f"oneof {oneof.name}", oneof)
            oneofs[field.oneof_index] = member
            members.append(member)
    return members


def _extend_blocks(extensions: Iterable["FieldDescriptorProto"]) -> list[_Member]:
    blocks: list[_Member] = []
    for field in extensions:
        head = f"extend {field.extendee}"
        if blocks and blocks[-1].head == head and field.type != _GROUP:
            blocks[-1].fields.append(field)
        else:
            blocks.append(_Member([field], head))
    return blocks


def _is_entry(message: "DescriptorProto") -> bool:
    return message.options.map_entry


def _type_name(field: "FieldDescriptorProto") -> str:
    return field.type_name or SCALAR_NAMES[field.type]
