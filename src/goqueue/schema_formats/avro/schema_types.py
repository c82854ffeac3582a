"""What an Avro schema is made of. Two uses of one named type are the same object."""

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
Properties: TypeAlias = dict[str, Json]

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(slots=True, eq=False)
class Primitive:
    kind: str
    properties: Properties = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return self.kind == "null"


@dataclass(slots=True, eq=False)
class Array:
    kind: ClassVar[str] = "array"
    is_empty: ClassVar[bool] = False
    items: "AvroType"
    properties: Properties


@dataclass(slots=True, eq=False)
class Map:
    kind: ClassVar[str] = "map"
    is_empty: ClassVar[bool] = False
    values: "AvroType"
    properties: Properties


@dataclass(slots=True, eq=False)
class Union:
    kind: ClassVar[str] = "union"
    is_empty: ClassVar[bool] = False
    branches: "list[AvroType]"


@dataclass(slots=True, eq=False, kw_only=True)
class NamedType:
    """`name` and `aliases` are full names, with the namespace."""

    name: str
    doc: str | None
    aliases: list[str]
    properties: Properties

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(slots=True, eq=False, kw_only=True)
class Enum(NamedType):
    kind: ClassVar[str] = "enum"
    is_empty: ClassVar[bool] = False
    symbols: list[str]
    default: str | None


@dataclass(slots=True, eq=False, kw_only=True)
class Fixed(NamedType):
    kind: ClassVar[str] = "fixed"
    size_bytes: int

    @property
    def is_empty(self) -> bool:
        return self.size_bytes == 0


@dataclass(slots=True, eq=False)
class Field:
    """Without `has_default`, `default` means nothing: None is a default too, JSON's null."""

    name: str
    type: "AvroType"
    doc: str | None
    aliases: list[str]
    order: str
    has_default: bool
    default: Json
    properties: Properties
    # Where the field stands in the schema's text, for what is wrong with it.
    place: str


@dataclass(slots=True, eq=False, kw_only=True)
class Record(NamedType):
    """`is_empty` says that a value takes no byte; a type inside itself counts as taking some."""

    kind: ClassVar[str] = "record"
    is_error: bool = False
    fields: list[Field] = field(default_factory=list)
    is_empty: bool = False


AvroType: TypeAlias = Primitive | Array | Map | Union | Enum | Fixed | Record
Named: TypeAlias = Enum | Fixed | Record


@dataclass(slots=True)
class Schema:
    """A schema with every named type it may use; `referenced` come from other schemas."""

    root: AvroType
    names: dict[str, Named]
    referenced: frozenset[str]
