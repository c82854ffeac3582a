"""What a schema demands, told by kind of value and without the drafts' spellings.

The split is that of Confluent's registry, so that its verdicts come out the same: a schema with
demands of several kinds is the product (`allOf`) of one shape per kind, and a list of types is the
sum (`anyOf`) of its types.
"""

from dataclasses import dataclass
from typing import Any, Final

from goqueue.schema_formats.json_schema.dialects import (
    Draft,
    only_refers,
    pointer_segment,
    reference_keywords,
)
from goqueue.schema_formats.json_schema.documents import Subschema

Number = int | float

_STRING_KEYWORDS: Final = frozenset(("minLength", "maxLength", "pattern"))
_NUMBER_KEYWORDS: Final = frozenset(
    ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
)
_ARRAY_KEYWORDS: Final = frozenset(
    {"items", "additionalItems", "prefixItems", "unevaluatedItems", "contains"}
    | {"minItems", "maxItems", "uniqueItems"}
)
_OBJECT_KEYWORDS: Final = frozenset(
    {"properties", "patternProperties", "additionalProperties", "unevaluatedProperties"}
    | {"required", "dependencies", "dependentRequired", "dependentSchemas"}
    | {"minProperties", "maxProperties", "propertyNames"}
)


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Compared by identity: one shape for one schema."""


@dataclass(frozen=True, slots=True, eq=False)
class Everything(Shape):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Nothing(Shape):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Booleans(Shape):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Nulls(Shape):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Strings(Shape):
    limits: dict[str, Number]
    pattern: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Numbers(Shape):
    limits: dict[str, Number]
    multiple_of: Number | None
    integers_only: bool


@dataclass(frozen=True, slots=True, eq=False)
class Arrays(Shape):
    """`items` is for all items, `leading` for the first ones and `additional` for those after.

    None stands for a keyword that is not there.
    """

    limits: dict[str, Number]
    unique: bool
    items: Subschema | None
    leading: list[Subschema]
    additional: Subschema | None
    unevaluated: Subschema | None


@dataclass(frozen=True, slots=True, eq=False)
class Objects(Shape):
    limits: dict[str, Number]
    properties: dict[str, Subschema]
    patterns: dict[str, Subschema]
    required: frozenset[str]
    required_with: dict[str, frozenset[str]]
    schemas_with: dict[str, Subschema]
    additional: Subschema | None
    unevaluated: Subschema | None


@dataclass(frozen=True, slots=True, eq=False)
class Enumeration(Shape):
    values: list[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Shape):
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Negation(Shape):
    refused: Subschema


@dataclass(frozen=True, slots=True, eq=False)
class Condition(Shape):
    """`if`; Confluent's registry does not look inside, and neither do we."""


@dataclass(frozen=True, slots=True, eq=False)
class Combination(Shape):
    criterion: str
    parts: tuple[Subschema | Shape, ...]


EVERYTHING: Final = Everything()
NOTHING: Final = Nothing()


class Shapes:
    """The shapes of a comparison's schemas, each made once and only when asked for."""

    def __init__(self) -> None:
        self._made: dict[int, Shape] = {}

    def of(self, subschema: Subschema | Shape | None) -> Shape:
        """Without a schema anything goes."""
        if isinstance(subschema, Shape):
            return subschema
        if subschema is None or subschema.schema is True:
            return EVERYTHING
        if subschema.schema is False:
            return NOTHING
        shape = self._made.get(id(subschema.schema))
        if shape is None:
            shape = self._made[id(subschema.schema)] = self._make(subschema)
        return shape

    def _make(self, subschema: Subschema) -> Shape:
        """Follows a chain of references in a loop: it may be longer than the stack is deep."""
        while True:
            parts = _demands(subschema)
            if len(parts) != 1:
                shape = Combination("allOf", tuple(parts)) if parts else EVERYTHING
                return self._made.setdefault(id(subschema.schema), shape)
            only = parts[0]
            if isinstance(only, Shape):
                return self._made.setdefault(id(subschema.schema), only)
            if isinstance(only.schema, bool) or id(only.schema) in self._made:
                return self.of(only)
            subschema = only


def _demands(subschema: Subschema) -> list[Subschema | Shape]:
    schema = subschema.schema
    assert isinstance(schema, dict)
    targets: list[Subschema | Shape] = [
        subschema.target(keyword)
        for keyword in reference_keywords(subschema.draft)
        if isinstance(schema.get(keyword), str)
    ]
    return (
        targets if only_refers(schema, subschema.draft) else [*targets, *_parts(subschema, schema)]
    )


def _parts(subschema: Subschema, schema: dict[str, Any]) -> list[Shape]:
    parts: list[Shape] = []
    if "enum" in schema:
        parts.append(Enumeration(schema["enum"]))
    for criterion in ("allOf", "anyOf", "oneOf"):
        if criterion in schema:
            parts.append(Combination(criterion, tuple(_listed(subschema, criterion))))
    if "not" in schema:
        parts.append(Negation(subschema.inner(schema["not"], "/not")))
    if "const" in schema and subschema.draft >= Draft.DRAFT_06:
        parts.append(Constant(schema["const"]))
    return parts + _typed_parts(subschema, schema)


def _typed_parts(subschema: Subschema, schema: dict[str, Any]) -> list[Shape]:
    """The declared types, then the kinds of value that other keywords speak about."""
    parts: list[Shape] = []
    declared = schema.get("type", [])
    if isinstance(declared, str):
        parts.append(_typed(subschema, declared))
        declared = [declared]
    elif "type" in schema:
        parts.append(Combination("anyOf", tuple(_typed(subschema, name) for name in declared)))
    present = schema.keys()
    if present & _ARRAY_KEYWORDS and "array" not in declared:
        parts.append(_arrays(subschema, schema))
    if present & _OBJECT_KEYWORDS and "object" not in declared:
        parts.append(_objects(subschema, schema))
    if present & _NUMBER_KEYWORDS and not {"number", "integer"} & set(declared):
        parts.append(_numbers(schema, subschema.draft, integers_only=False))
    if present & _STRING_KEYWORDS and "string" not in declared:
        parts.append(_strings(schema))
    if "if" in schema and subschema.draft >= Draft.DRAFT_07:
        parts.append(Condition())
    return parts


def _typed(subschema: Subschema, name: str) -> Shape:
    schema = subschema.schema
    assert isinstance(schema, dict)
    match name:
        case "string":
            return _strings(schema)
        case "integer" | "number":
            return _numbers(schema, subschema.draft, integers_only=name == "integer")
        case "array":
            return _arrays(subschema, schema)
        case "object":
            return _objects(subschema, schema)
        case "boolean":
            return Booleans()
        case _:
            return Nulls()


def _strings(schema: dict[str, Any]) -> Strings:
    return Strings(_counts(schema, "minLength", "maxLength"), schema.get("pattern"))


def _numbers(schema: dict[str, Any], draft: Draft, *, integers_only: bool) -> Numbers:
    names = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    limits = {name: schema[name] for name in names if name in schema}
    if draft == Draft.DRAFT_04:
        # There exclusiveMinimum is a boolean that makes `minimum` exclusive (validation, 5.1.3).
        for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if limits.pop(exclusive, False) and plain in limits:
                limits[exclusive] = limits.pop(plain)
    return Numbers(limits, schema.get("multipleOf"), integers_only)


def _arrays(subschema: Subschema, schema: dict[str, Any]) -> Arrays:
    limits = _counts(schema, "minItems", "maxItems")
    if "contains" in schema and subschema.draft >= Draft.DRAFT_06:
        limits["minContains"] = 1
        if subschema.draft >= Draft.DRAFT_2019_09:
            limits |= {n: schema[n] for n in ("minContains", "maxContains") if n in schema}
        if not limits["minContains"]:
            del limits["minContains"]
    unevaluated = None
    if subschema.draft >= Draft.DRAFT_2019_09:
        unevaluated = _child(subschema, "unevaluatedItems")
    items, leading, additional = _items(subschema)
    unique = schema.get("uniqueItems", False)
    return Arrays(limits, unique, items, leading, additional, unevaluated)


def _items(subschema: Subschema) -> tuple[Subschema | None, list[Subschema], Subschema | None]:
    """`items` with a list became `prefixItems` and `additionalItems` `items` in 2020-12."""
    items = _child(subschema, "items")
    if subschema.draft >= Draft.DRAFT_2020_12:
        leading = _listed(subschema, "prefixItems")
        closed = items is not None and items.schema is False
        return (None, leading, items) if leading or closed else (items, [], None)
    leading = _listed(subschema, "items")
    # Without a list before them there are no additional items: the keyword says nothing.
    return items, leading, _child(subschema, "additionalItems") if leading else None


def _objects(subschema: Subschema, schema: dict[str, Any]) -> Objects:
    required_with: dict[str, frozenset[str]] = {}
    schemas_with: dict[str, Subschema] = {}
    unevaluated = None
    if subschema.draft >= Draft.DRAFT_2019_09:
        unevaluated = _child(subschema, "unevaluatedProperties")
        given = schema.get("dependentRequired", {})
        required_with = {name: frozenset(names) for name, names in given.items()}
        schemas_with = _named(subschema, "dependentSchemas")
    else:
        given = schema.get("dependencies", {})
        required_with = {n: frozenset(v) for n, v in given.items() if isinstance(v, list)}
        schemas_with = _named(subschema, "dependencies")
    return Objects(
        limits=_counts(schema, "minProperties", "maxProperties"),
        properties=_named(subschema, "properties"),
        patterns=_named(subschema, "patternProperties"),
        required=frozenset(schema.get("required", ())),
        required_with=required_with,
        schemas_with=schemas_with,
        additional=_child(subschema, "additionalProperties"),
        unevaluated=unevaluated,
    )


def _counts(schema: dict[str, Any], least: str, most: str) -> dict[str, Number]:
    """At least none is no demand."""
    limits = {name: schema[name] for name in (least, most) if name in schema}
    return {name: value for name, value in limits.items() if name != least or value > 0}


def _child(subschema: Subschema, keyword: str) -> Subschema | None:
    assert isinstance(subschema.schema, dict)
    value = subschema.schema.get(keyword)
    return subschema.inner(value, f"/{keyword}") if isinstance(value, dict | bool) else None


def _listed(subschema: Subschema, keyword: str) -> list[Subschema]:
    assert isinstance(subschema.schema, dict)
    value = subschema.schema.get(keyword)
    if not isinstance(value, list):
        return []
    return [subschema.inner(item, f"/{keyword}/{index}") for index, item in enumerate(value)]


def _named(subschema: Subschema, keyword: str) -> dict[str, Subschema]:
    assert isinstance(subschema.schema, dict)
    return {
        name: subschema.inner(item, f"/{keyword}/{pointer_segment(name)}")
        for name, item in subschema.schema.get(keyword, {}).items()
        if isinstance(item, dict | bool)
    }
