"""From a schema's JSON to its types, refusing what the specification (1.12) does not allow."""

import re
from typing import NoReturn, cast

from goqueue.model.schemas.formats import InvalidSchema, SchemaSource
from goqueue.schema_formats.avro.defaults import DefaultCheck, number_in_text
from goqueue.schema_formats.avro.json_text import read_json
from goqueue.schema_formats.avro.schema_types import (
    PRIMITIVES,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Named,
    Primitive,
    Properties,
    Record,
    Schema,
    Union,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMED_KINDS = ("record", "error", "enum", "fixed")
_ORDERS = ("ascending", "descending", "ignore")
# A name or a symbol in a message may be as long as the schema.
_MAX_MESSAGE_CHARACTERS = 1000
# Java's Avro holds a size in an int.
_MAX_FIXED_BYTES = (1 << 31) - 1
# What has a meaning is no property; Java's Avro sees the first ten so in every type.
_TYPE_ATTRIBUTES = frozenset(
    ["doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"]
)
_ENUM_ATTRIBUTES = _TYPE_ATTRIBUTES | {"default"}
_FIELD_ATTRIBUTES = frozenset(["aliases", "default", "doc", "name", "order", "type"])


def read_schema(source: SchemaSource) -> Schema:
    """Raises `InvalidSchema`, with the place of the fault where there is one."""
    try:
        return _read_with_references(source)
    except InvalidSchema as fault:
        if len(str(fault)) <= _MAX_MESSAGE_CHARACTERS:
            raise
        raise InvalidSchema(f"{str(fault)[:_MAX_MESSAGE_CHARACTERS]}…") from None


def _read_with_references(source: SchemaSource) -> Schema:
    reading = _Reading()
    texts_read: set[str] = set()
    for reference in source.references:
        # Two schemas that are used may themselves use one under two names.
        if reference.text in texts_read:
            continue
        texts_read.add(reference.text)
        try:
            reading.read_whole(reference.text)
        except InvalidSchema as fault:
            raise InvalidSchema(f"in the reference {reference.name!r}: {fault}") from None
    referenced = frozenset(reading.names)
    return Schema(reading.read_whole(source.text), reading.names, referenced)


def _fault(place: str, problem: str) -> NoReturn:
    raise InvalidSchema(f"{place or '/'}: {problem}")


def _other_attributes(declared: dict[str, Json], known: frozenset[str]) -> Properties:
    return {key: value for key, value in declared.items() if key not in known}


class _Reading:
    def __init__(self) -> None:
        self.names: dict[str, Named] = {}
        self._fields: list[Field] = []
        self._default_check = DefaultCheck()

    def read_whole(self, text: str) -> AvroType:
        self._fields = []
        root = self._read(read_json(text), "", "")
        # Only now are records complete that stand inside themselves.
        self._default_check.check(self._fields)
        return root

    def _read(self, declared: Json, namespace: str, place: str) -> AvroType:
        if isinstance(declared, str):
            return self._read_name(declared, namespace, place)
        if isinstance(declared, list):
            return self._read_union(declared, namespace, place)
        if isinstance(declared, dict):
            return self._read_object(declared, namespace, place)
        return _fault(place, "a schema is a type's name, an object or an array (a union)")

    def _read_name(self, name: str, namespace: str, place: str) -> AvroType:
        if name in PRIMITIVES:
            return Primitive(name)
        found = self._find(name, namespace)
        if found is None:
            _fault(
                place,
                f"the type {name!r} is not defined: define it before it is used, "
                "or add a reference to the schema that does",
            )
        return found

    def _find(self, name: str, namespace: str) -> Named | None:
        if "." not in name and namespace:
            return self.names.get(f"{namespace}.{name}") or self.names.get(name)
        return self.names.get(name)

    def _read_union(self, declared: list[Json], namespace: str, place: str) -> AvroType:
        if not declared:
            _fault(place, "a union needs at least one type")
        branches: list[AvroType] = []
        seen: set[str] = set()
        for index, branch_declared in enumerate(declared):
            branch = self._read(branch_declared, namespace, f"{place}/{index}")
            if isinstance(branch, Union):
                _fault(f"{place}/{index}", "a union may not stand directly in a union")
            known_by = branch.name if isinstance(branch, Named) else branch.kind
            if known_by in seen:
                _fault(f"{place}/{index}", f"the union has the type {known_by!r} twice")
            seen.add(known_by)
            branches.append(branch)
        return Union(branches)

    def _read_object(self, declared: dict[str, Json], namespace: str, place: str) -> AvroType:
        kind = declared.get("type")
        if not isinstance(kind, str):
            _fault(
                place,
                "the attribute 'type' must be a type's name; "
                "a schema inside 'type' is to be written without the object around it"
                if kind is not None
                else "the attribute 'type' is missing",
            )
        if kind in PRIMITIVES:
            return Primitive(kind, _other_attributes(declared, _TYPE_ATTRIBUTES))
        if kind in ("array", "map"):
            return self._read_collection(kind, declared, namespace, place)
        if kind in _NAMED_KINDS:
            return self._read_named(kind, declared, namespace, place)
        return self._read_name(kind, namespace, f"{place}/type")

    def _read_collection(
        self, kind: str, declared: dict[str, Json], namespace: str, place: str
    ) -> AvroType:
        attribute = "items" if kind == "array" else "values"
        if attribute not in declared:
            _fault(place, f"the {kind} has no {attribute!r}")
        inner = self._read(declared[attribute], namespace, f"{place}/{attribute}")
        properties = _other_attributes(declared, _TYPE_ATTRIBUTES)
        return Array(inner, properties) if kind == "array" else Map(inner, properties)

    def _read_named(
        self, kind: str, declared: dict[str, Json], namespace: str, place: str
    ) -> AvroType:
        name = _full_name(declared, namespace, place)
        if name in self.names:
            _fault(f"{place}/name", f"the type {name!r} is defined already")
        doc = _text(declared, "doc", place)
        namespace = name.rpartition(".")[0]
        aliases = list(
            dict.fromkeys(
                _qualified(alias, namespace, f"{place}/aliases/{index}")
                for index, alias in enumerate(_texts(declared, "aliases", place))
            )
        )
        if kind == "enum":
            properties = _other_attributes(declared, _ENUM_ATTRIBUTES)
            symbols, default = _read_symbols(declared, place)
            self.names[name] = enum = Enum(
                name=name,
                doc=doc,
                aliases=aliases,
                properties=properties,
                symbols=symbols,
                default=default,
            )
            return enum
        properties = _other_attributes(declared, _TYPE_ATTRIBUTES)
        if kind == "fixed":
            size = _read_size(declared, place)
            self.names[name] = fixed = Fixed(
                name=name, doc=doc, aliases=aliases, properties=properties, size_bytes=size
            )
            return fixed
        self.names[name] = record = Record(
            name=name, doc=doc, aliases=aliases, properties=properties, is_error=kind == "error"
        )
        self._read_fields(record, declared, place)
        return record

    def _read_fields(self, record: Record, declared: dict[str, Json], place: str) -> None:
        listed = declared.get("fields")
        if not isinstance(listed, list):
            _fault(place, f"the record {record.name!r} needs 'fields', an array")
        seen: set[str] = set()
        for index, field_declared in enumerate(listed):
            field_place = f"{place}/fields/{index}"
            if not isinstance(field_declared, dict):
                _fault(field_place, "a field is an object with 'name' and 'type'")
            field = self._read_field(field_declared, record.namespace, field_place)
            if field.name in seen:
                _fault(f"{field_place}/name", f"the record has the field {field.name!r} twice")
            seen.add(field.name)
            record.fields.append(field)
        record.is_empty = all(field.type.is_empty for field in record.fields)

    def _read_field(self, declared: dict[str, Json], namespace: str, place: str) -> Field:
        name = _simple_name(declared.get("name"), f"{place}/name")
        if "type" not in declared:
            _fault(place, f"the field {name!r} has no 'type'")
        order = _text(declared, "order", place) or "ascending"
        if order.lower() not in _ORDERS:
            _fault(f"{place}/order", f"{order!r} is none of {', '.join(_ORDERS)}")
        aliases = list(
            dict.fromkeys(
                _simple_name(alias, f"{place}/aliases/{index}")
                for index, alias in enumerate(_texts(declared, "aliases", place))
            )
        )
        avro_type = self._read(declared["type"], namespace, f"{place}/type")
        field = Field(
            name=name,
            type=avro_type,
            doc=_text(declared, "doc", place),
            aliases=aliases,
            order=order.lower(),
            has_default="default" in declared,
            default=number_in_text(avro_type, declared.get("default")),
            properties=_other_attributes(declared, _FIELD_ATTRIBUTES),
            place=place,
        )
        self._fields.append(field)
        return field


def _text(declared: dict[str, Json], attribute: str, place: str) -> str | None:
    value = declared.get(attribute)
    if value is not None and not isinstance(value, str):
        _fault(f"{place}/{attribute}", "must be text")
    return value


def _texts(declared: dict[str, Json], attribute: str, place: str) -> list[str]:
    values = declared.get(attribute, [])
    if not isinstance(values, list):
        _fault(f"{place}/{attribute}", "must be an array of texts")
    for index, value in enumerate(values):
        if not isinstance(value, str):
            _fault(f"{place}/{attribute}/{index}", "must be text")
    return cast(list[str], values)


def _simple_name(name: Json, place: str) -> str:
    if not isinstance(name, str):
        _fault(place, "a name is needed, as text")
    if not _NAME.fullmatch(name):
        _fault(
            place,
            f"{name!r} is no name: names begin with a letter or _, "
            "and go on with letters, digits and _ (A-Z, a-z, 0-9)",
        )
    return name


def _full_name(declared: dict[str, Json], enclosing_namespace: str, place: str) -> str:
    name = declared.get("name")
    if not isinstance(name, str):
        _fault(place, f"the {declared['type']} needs a 'name', as text")
    namespace = _text(declared, "namespace", place)
    if namespace is None:
        namespace = enclosing_namespace
    elif namespace and "." not in name:
        for part in namespace.split("."):
            _simple_name(part, f"{place}/namespace")
    full_name = _qualified(name, namespace, f"{place}/name")
    if full_name.rpartition(".")[2] in PRIMITIVES:
        _fault(f"{place}/name", f"{name!r} is the name of a primitive type")
    return full_name


def _qualified(name: str, namespace: str, place: str) -> str:
    """A name with dots is full already; one that begins with a dot is in no namespace."""
    if "." not in name:
        _simple_name(name, place)
        return f"{namespace}.{name}" if namespace else name
    for part in name.removeprefix(".").split("."):
        _simple_name(part, place)
    return name.removeprefix(".")


def _read_symbols(declared: dict[str, Json], place: str) -> tuple[list[str], str | None]:
    listed = declared.get("symbols")
    if not isinstance(listed, list):
        _fault(place, "the enum needs 'symbols', an array of names")
    symbols: dict[str, None] = {}
    for index, symbol in enumerate(listed):
        name = _simple_name(symbol, f"{place}/symbols/{index}")
        if name in symbols:
            _fault(f"{place}/symbols/{index}", f"the enum has the symbol {name!r} twice")
        symbols[name] = None
    default = _text(declared, "default", place)
    if default is not None and default not in symbols:
        _fault(f"{place}/default", f"{default!r} is none of the enum's symbols")
    return list(symbols), default


def _read_size(declared: dict[str, Json], place: str) -> int:
    size = declared.get("size")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _MAX_FIXED_BYTES:
        _fault(f"{place}/size", f"must be a whole number from 0 to {_MAX_FIXED_BYTES}")
    return size
