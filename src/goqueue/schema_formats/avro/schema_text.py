"""The text under which a schema is kept, and what makes two schemas the same.

The plain form is that of Java's `Schema.toString`, which Confluent's registry stores: attributes in
a fixed order, namespaces only where they change, everything else as it was written. The normal
form is the same text after what has no meaning is brought in order, as Confluent's `normalize`
does: properties and aliases sorted, an empty doc left out, `error` called `record`.
"""

import hashlib
from collections.abc import Iterable

from goqueue.model.schemas.formats import InvalidSchema, ParsedSchema, SchemaSource
from goqueue.schema_formats.avro.json_text import sorted_keys, write_json
from goqueue.schema_formats.avro.schema_reading import read_schema
from goqueue.schema_formats.avro.schema_types import (
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
    Union,
)

# These come before other properties, whatever their names.
_LOGICAL_TYPE_PROPERTIES = ("logicalType", "precision", "scale")


def parse(source: SchemaSource, *, normalize: bool = False) -> ParsedSchema:
    """Raises `InvalidSchema`. With `normalize`, what differs only in writing becomes equal."""
    schema = read_schema(source)
    writing = _Writing(schema.referenced, normalize=normalize)
    canonical = write_json(writing.write(schema.root, ""))
    references: list[Json] = [[name, text] for name, text in source.references]
    if normalize:
        references = [[name, text] for name, text in sorted(set(source.references))]
    try:
        identity = f"{canonical}\n{write_json(references)}".encode()
    except UnicodeEncodeError as error:
        raise InvalidSchema(f"the schema has half a character: {error.reason}") from None
    return ParsedSchema(
        canonical=canonical,
        fingerprint=hashlib.sha256(identity).hexdigest(),
        record_name=schema.root.name if isinstance(schema.root, Record) else None,
    )


def resolved(source: SchemaSource) -> str:
    """The schema with all that it refers to written where it is used first."""
    return write_json(_Writing(normalize=False).write(read_schema(source).root, ""))


class _Writing:
    def __init__(self, written: Iterable[str] = (), *, normalize: bool) -> None:
        self._normalize = normalize
        self._written = set(written)

    def write(self, avro_type: AvroType, namespace: str) -> Json:
        match avro_type:
            case Primitive(kind, properties):
                return {"type": kind, **self._in_order(properties)} if properties else kind
            case Array(items, properties):
                written = self.write(items, namespace)
                return {"type": "array", "items": written, **self._in_order(properties)}
            case Map(values, properties):
                written = self.write(values, namespace)
                return {"type": "map", "values": written, **self._in_order(properties)}
            case Union(branches):
                return [self.write(branch, namespace) for branch in branches]
            case _:
                return self._write_named(avro_type, namespace)

    def _write_named(self, named: Named, namespace: str) -> Json:
        if named.name in self._written:
            return _relative(named.name, namespace)
        self._written.add(named.name)
        is_error = isinstance(named, Record) and named.is_error and not self._normalize
        written: dict[str, Json] = {
            "type": "error" if is_error else named.kind,
            "name": named.simple_name,
        }
        if named.namespace != namespace:
            written["namespace"] = named.namespace
        if named.doc or (named.doc is not None and not self._normalize):
            written["doc"] = named.doc
        match named:
            case Record(fields=fields):
                written["fields"] = [self._write_field(field, named.namespace) for field in fields]
            case Enum(symbols=symbols, default=default):
                written["symbols"] = list(symbols)
                if default is not None:
                    written["default"] = default
            case Fixed(size_bytes=size):
                written["size"] = size
        written |= self._in_order(named.properties)
        if named.aliases:
            aliases = sorted(named.aliases) if self._normalize else named.aliases
            written["aliases"] = [_relative(alias, named.namespace) for alias in aliases]
        return written

    def _write_field(self, field: Field, namespace: str) -> Json:
        written: dict[str, Json] = {
            "name": field.name,
            "type": self.write(field.type, namespace),
        }
        if field.doc is not None:
            written["doc"] = field.doc
        if field.has_default:
            default = sorted_keys(field.default) if self._normalize else field.default
            written["default"] = default
        if field.order != "ascending":
            written["order"] = field.order
        if field.aliases:
            written["aliases"] = list(sorted(field.aliases) if self._normalize else field.aliases)
        return written | self._in_order(field.properties)

    def _in_order(self, properties: Properties) -> Properties:
        if not self._normalize:
            return properties
        first = [key for key in _LOGICAL_TYPE_PROPERTIES if key in properties]
        if "logicalType" not in properties:
            first = []
        keys = first + sorted(properties.keys() - set(first))
        return {key: sorted_keys(properties[key]) for key in keys}


def _relative(full_name: str, namespace: str) -> str:
    """A name as it is written inside a namespace."""
    own_namespace, _, simple_name = full_name.rpartition(".")
    return simple_name if own_namespace == namespace else full_name
