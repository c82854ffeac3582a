"""Which differences of two schemas keep the data of one from being read with the other.

The rules and their names are those of Confluent's registry. Two are stricter. A number that becomes
repeated, or is no longer, is reported for proto3 fields without a label too: repeated numbers are
packed, which a reader of single values skips (protobuf.dev, "Updating A Message Type"). And groups
are compared: they are a kind of their own, for on the wire they are no messages.
"""

from typing import Final

from goqueue.model.schemas.formats import Incompatibility
from goqueue.schema_formats.protobuf.message_types import (
    TEXT,
    Field,
    FieldType,
    Kind,
    Label,
    MessageType,
    SchemaTypes,
)

# A pair of messages that references brought, compared once: names in the writer's and reader's
# schema. The schemas themselves have none.
_Pair = tuple[str, str]
_OWN: Final[_Pair] = ("", "")


def differences(writer: SchemaTypes, reader: SchemaTypes) -> list[Incompatibility]:
    return _Comparison(writer, reader).run()


class _Comparison:
    """Referenced messages wait in a queue: they may be chained deeper than Python recurses."""

    def __init__(self, writer: SchemaTypes, reader: SchemaTypes) -> None:
        self._writer = writer
        self._reader = reader
        self._found: dict[Incompatibility, None] = {}
        self._waiting: list[_Pair] = []
        self._uses: dict[_Pair, list[tuple[_Pair, Incompatibility]]] = {}
        self._current = _OWN
        self._broken: set[_Pair] = set()

    def run(self) -> list[Incompatibility]:
        written, read = self._writer.package, self._reader.package
        if written != read:
            text = f"the package is {written!r} for the writer, {read!r} for the reader"
            self._add("PACKAGE_CHANGED", (), text)
        self._messages(self._writer.messages, self._reader.messages)
        while self._waiting:
            self._current = self._waiting.pop()
            writer_name, reader_name = self._current
            self._message(self._writer.by_name[writer_name], self._reader.by_name[reader_name])
        self._break_users()
        return sorted(self._found, key=lambda found: (found.path, found.kind))

    def _break_users(self) -> None:
        """Whoever uses a message that changed incompatibly has changed so too."""
        waiting = list(self._broken)
        while waiting:
            for user, reason in self._uses.get(waiting.pop(), []):
                self._found[reason] = None
                if user not in self._broken:
                    self._broken.add(user)
                    waiting.append(user)

    def _add(self, kind: str, path: tuple[object, ...], message: str) -> None:
        self._found[_incompatibility(kind, path, message)] = None
        self._broken.add(self._current)

    def _messages(self, writer: dict[str, MessageType], reader: dict[str, MessageType]) -> None:
        for name, written in writer.items():
            if name in reader:
                self._message(written, reader[name])
            elif not written.is_group:
                self._add(
                    "MESSAGE_REMOVED",
                    written.path,
                    f"message {'.'.join(written.path)} is in the writer's schema only",
                )

    def _message(self, writer: MessageType, reader: MessageType) -> None:
        self._exclusive(writer, reader)
        deleted = _deleted_oneofs(writer, reader)
        for number, written in writer.fields.items():
            read = reader.fields.get(number)
            if read is not None:
                self._field(_path_of(writer, read), written, read)
            elif written.oneof is not None and written.oneof not in deleted:
                self._add(
                    "ONEOF_FIELD_REMOVED",
                    (*writer.path, written.oneof, number),
                    f"field {number} of oneof {written.oneof} is in the writer's schema only",
                )
            elif written.label is Label.REQUIRED:
                self._add(
                    "REQUIRED_FIELD_REMOVED",
                    (*writer.path, number),
                    f"required field {number} is in the writer's schema only",
                )
        for number, read in reader.fields.items():
            # What leaves a oneof counts as new outside of it.
            is_new = number not in writer.fields or writer.fields[number].oneof is not None
            if is_new and read.label is Label.REQUIRED:
                self._add(
                    "REQUIRED_FIELD_ADDED",
                    (*writer.path, number),
                    f"field {number} is required by the reader, and the writer need not set it",
                )
        self._messages(writer.nested, reader.nested)

    def _exclusive(self, writer: MessageType, reader: MessageType) -> None:
        """Fields that the writer may set together must not exclude each other for the reader.

        In the writer's schema those of one oneof exclude each other already; any other field is by
        itself. What the writer does not know is never set.
        """
        members: dict[str, list[Field]] = {}
        for number, read in reader.fields.items():
            if read.oneof is not None and number in writer.fields:
                members.setdefault(read.oneof, []).append(writer.fields[number])
        for name, known in members.items():
            moved = sum(field.oneof is None for field in known)
            came_from = {field.oneof for field in known if field.oneof is not None}
            if moved + len(came_from) < 2:
                continue
            kind = "FIELD_MOVED_TO_EXISTING_ONEOF"
            text = f"fields that the writer may set together are in oneof {name}"
            if moved > 1:
                kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF"
                text = f"{moved} fields that the writer may set together are in oneof {name}"
            self._add(kind, (*writer.path, name), text)

    def _field(self, path: tuple[object, ...], writer: Field, reader: Field) -> None:
        self._type(path, writer.type, reader.type)
        if (
            writer.type.kind is reader.type.kind is Kind.SCALAR
            and writer.type.wire_group == reader.type.wire_group != TEXT
            and _labels_differ(writer.label, reader.label)
        ):
            self._add(
                "FIELD_NUMERIC_LABEL_CHANGED",
                path,
                f"the number is {writer.label.value} for the writer, {reader.label.value} for the"
                " reader",
            )

    def _type(self, path: tuple[object, ...], writer: FieldType, reader: FieldType) -> None:
        if writer.kind is not reader.kind:
            self._add("FIELD_KIND_CHANGED", path, _both(writer, reader))
        elif writer.kind is Kind.SCALAR:
            if writer.wire_group != reader.wire_group:
                self._add("FIELD_SCALAR_KIND_CHANGED", path, _both(writer, reader))
        elif writer.entry is not None and reader.entry is not None:
            for written, read in zip(writer.entry, reader.entry, strict=True):
                self._type(path, written, read)
        else:
            self._message_type(path, writer, reader)

    def _message_type(self, path: tuple[object, ...], writer: FieldType, reader: FieldType) -> None:
        written, read = self._writer.by_name[writer.name], self._reader.by_name[reader.name]
        if written.path != read.path:
            self._add("FIELD_NAMED_TYPE_CHANGED", path, _both(writer, reader))
        elif not (written.is_own and read.is_own):
            pair = (writer.name, reader.name)
            if pair not in self._uses:
                self._uses[pair] = []
                self._waiting.append(pair)
            reason = f"message {reader.name} cannot be read as the writer's {writer.name}"
            self._uses[pair].append(
                (self._current, _incompatibility("FIELD_NAMED_TYPE_CHANGED", path, reason))
            )


def _incompatibility(kind: str, path: tuple[object, ...], message: str) -> Incompatibility:
    return Incompatibility(kind, "#/" + "/".join(map(str, path)), message)


def _both(writer: FieldType, reader: FieldType) -> str:
    return f"the field is {writer} for the writer, {reader} for the reader"


def _path_of(message: MessageType, reader: Field) -> tuple[object, ...]:
    """Where the reader has it: its oneof is part of the path."""
    if reader.oneof is not None:
        return (*message.path, reader.oneof, reader.number)
    return (*message.path, reader.number)


def _deleted_oneofs(writer: MessageType, reader: MessageType) -> set[str]:
    """Those of which the reader has neither the name nor a member: they were taken out whole."""
    deleted = {field.oneof for field in writer.fields.values() if field.oneof is not None}
    deleted -= {field.oneof for field in reader.fields.values() if field.oneof is not None}
    return deleted - {
        field.oneof
        for field in writer.fields.values()
        if field.oneof is not None and field.number in reader.fields
    }


def _labels_differ(writer: Label, reader: Label) -> bool:
    if Label.IMPLICIT in (writer, reader):
        return (writer is Label.REPEATED) is not (reader is Label.REPEATED)
    return writer is not reader
