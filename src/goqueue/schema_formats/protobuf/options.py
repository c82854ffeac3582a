"""Options of files, messages, fields and the rest, as .proto text."""

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message


def quoted(value: str | bytes) -> str:
    from google.protobuf.text_encoding import CEscape

    # It takes both, whatever its types say.
    return f'"{CEscape(cast(bytes, value), as_utf8=isinstance(value, str))}"'


def option_pairs(options: "Message", *, skip: frozenset[str] = frozenset()) -> list[str]:
    """`name = value` for each option that is set; one for each value of a repeated one."""
    pairs = []
    for field, value in options.ListFields():
        if field.name in skip or field.name == "uninterpreted_option":
            continue
        # From the root on, so that the place of use cannot change what the name means.
        name = f"(.{field.full_name})" if field.is_extension else field.name
        values = value if field.is_repeated else [value]
        pairs += [f"{name} = {_literal(field, one)}" for one in _listed(field, values)]
    return sorted(pairs, key=_custom_last)


def _custom_last(pair: str) -> tuple[bool, str]:
    return pair.startswith("("), pair.partition(" = ")[0]


def _listed(field: "FieldDescriptor", values: Any) -> list[Any]:
    if field.message_type is None or not field.message_type.GetOptions().map_entry:
        return list(values)
    entry_class = values.GetEntryClass()
    entries = []
    for key in sorted(values):
        entry = entry_class(key=key)
        if field.message_type.fields_by_name["value"].message_type is None:
            entry.value = values[key]
        else:
            entry.value.CopyFrom(values[key])
        entries.append(entry)
    return entries


def _literal(field: "FieldDescriptor", value: Any) -> str:
    from google.protobuf.text_format import MessageToString

    if field.message_type is not None:
        return f"{{ {MessageToString(value, as_one_line=True)} }}".replace("{  }", "{}")
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | bytes):
        return quoted(value)
    return repr(value)
