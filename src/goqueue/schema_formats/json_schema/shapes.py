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
from goqueue.schema_formats.json_schema.documents import Place

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
    items: Place | None
    leading: list[Place]
    additional: Place | None
    unevaluated: Place | None


@dataclass(frozen=True, slots=True, eq=False)
class Objects(Shape):
    limits: dict[str, Number]
    properties: dict[str, Place]
    patterns: dict[str, Place]
    required: frozenset[str]
    required_with: dict[str, frozenset[str]]
    schemas_with: dict[str, Place]
    additional: Place | None
    unevaluated: Place | None


@dataclass(frozen=True, slots=True, eq=False)
class Enumeration(Shape):
    values: list[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Shape):
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Negation(Shape):
    refused: Place


@dataclass(frozen=True, slots=True, eq=False)
class Condition(Shape):
    """`if`; Confluent's registry does not look inside, and neither do we."""


@dataclass(frozen=True, slots=True, eq=False)
class Combination(Shape):
    criterion: str
    parts: tuple[Place | Shape, ...]


EVERYTHING: Final = Everything()
NOTHING: Final = Nothing()


class Shapes:
    """The shapes of a comparison's schemas, each made once and only when asked for."""

    def __init__(self) -> None:
        self._made: dict[int, Shape] = {}

    def of(self, place: Place | Shape | None) -> Shape:
        """Without a schema anything goes."""
        if isinstance(place, Shape):
            return place
        if place is None or place.schema is True:
            return EVERYTHING
        if place.schema is False:
            return NOTHING
        shape = self._made.get(id(place.schema))
        if shape is None:
            shape = self._made[id(place.schema)] = self._make(place)
        return shape

    def _make(self, place: Place) -> Shape:
        """Follows a chain of references in a loop: it may be longer than the stack is deep."""
        while True:
            parts = _demands(place)
            if len(parts) != 1:
                shape = Combination("allOf", tuple(parts)) if parts else EVERYTHING
                return self._made.setdefault(id(place.schema), shape)
            only = parts[0]
            if isinstance(only, Shape):
                return self._made.setdefault(id(place.schema), only)
            if isinstance(only.schema, bool) or id(only.schema) in self._made:
                return self.of(only)
            place = only


def _demands(place: Place) -> list[Place | Shape]:
    schema = place.schema
    assert isinstance(schema, dict)
    targets: list[Place | Shape] = [
        place.target(keyword)
        for keyword in reference_keywords(place.draft)
        if isinstance(schema.get(keyword), str)
    ]
    return targets if only_refers(schema, place.draft) else [*targets, *_parts(place, schema)]


def _parts(place: Place, schema: dict[str, Any]) -> list[Shape]:
    parts: list[Shape] = []
    if "enum" in schema:
        parts.append(Enumeration(schema["enum"]))
    for criterion in ("allOf", "anyOf", "oneOf"):
        if criterion in schema:
            parts.append(Combination(criterion, tuple(_listed(place, criterion))))
    if "not" in schema:
        parts.append(Negation(place.inner(schema["not"], "/not")))
    if "const" in schema and place.draft >= Draft.DRAFT_06:
        parts.append(Constant(schema["const"]))
    return parts + _typed_parts(place, schema)


def _typed_parts(place: Place, schema: dict[str, Any]) -> list[Shape]:
    """The declared types, then the kinds of value that other keywords speak about."""
    parts: list[Shape] = []
    declared = schema.get("type", [])
    if isinstance(declared, str):
        parts.append(_typed(place, declared))
        declared = [declared]
    elif "type" in schema:
        parts.append(Combination("anyOf", tuple(_typed(place, name) for name in declared)))
    present = schema.keys()
    if present & _ARRAY_KEYWORDS and "array" not in declared:
        parts.append(_arrays(place, schema))
    if present & _OBJECT_KEYWORDS and "object" not in declared:
        parts.append(_objects(place, schema))
    if present & _NUMBER_KEYWORDS and not {"number", "integer"} & set(declared):
        parts.append(_numbers(schema, place.draft, integers_only=False))
    if present & _STRING_KEYWORDS and "string" not in declared:
        parts.append(_strings(schema))
    if "if" in schema and place.draft >= Draft.DRAFT_07:
        parts.append(Condition())
    return parts


def _typed(place: Place, name: str) -> Shape:
    schema = place.schema
    assert isinstance(schema, dict)
    match name:
        case "string":
            return _strings(schema)
        case "integer" | "number":
            return _numbers(schema, place.draft, integers_only=name == "integer")
        case "array":
            return _arrays(place, schema)
        case "object":
            return _objects(place, schema)
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


def _arrays(place: Place, schema: dict[str, Any]) -> Arrays:
    limits = _counts(schema, "minItems", "maxItems")
    if "contains" in schema and place.draft >= Draft.DRAFT_06:
        limits["minContains"] = 1
        if place.draft >= Draft.DRAFT_2019_09:
            limits |= {n: schema[n] for n in ("minContains", "maxContains") if n in schema}
        if not limits["minContains"]:
            del limits["minContains"]
    unevaluated = None
    if place.draft >= Draft.DRAFT_2019_09:
        unevaluated = _child(place, "unevaluatedItems")
    items, leading, additional = _items(place)
    unique = schema.get("uniqueItems", False)
    return Arrays(limits, unique, items, leading, additional, unevaluated)


def _items(place: Place) -> tuple[Place | None, list[Place], Place | None]:
    """`items` with a list became `prefixItems` and `additionalItems` `items` in 2020-12."""
    items = _child(place, "items")
    if place.draft >= Draft.DRAFT_2020_12:
        leading = _listed(place, "prefixItems")
        closed = items is not None and items.schema is False
        return (None, leading, items) if leading or closed else (items, [], None)
    leading = _listed(place, "items")
    # Without a list before them there are no additional items: the keyword says nothing.
    return items, leading, _child(place, "additionalItems") if leading else None


def _objects(place: Place, schema: dict[str, Any]) -> Objects:
    required_with: dict[str, frozenset[str]] = {}
    schemas_with: dict[str, Place] = {}
    unevaluated = None
    if place.draft >= Draft.DRAFT_2019_09:
        unevaluated = _child(place, "unevaluatedProperties")
        given = schema.get("dependentRequired", {})
        required_with = {name: frozenset(names) for name, names in given.items()}
        schemas_with = _named(place, "dependentSchemas")
    else:
        given = schema.get("dependencies", {})
        required_with = {n: frozenset(v) for n, v in given.items() if isinstance(v, list)}
        schemas_with = _named(place, "dependencies")
    return Objects(
        limits=_counts(schema, "minProperties", "maxProperties"),
        properties=_named(place, "properties"),
        patterns=_named(place, "patternProperties"),
        required=frozenset(schema.get("required", ())),
        required_with=required_with,
        schemas_with=schemas_with,
        additional=_child(place, "additionalProperties"),
        unevaluated=unevaluated,
    )


def _counts(schema: dict[str, Any], least: str, most: str) -> dict[str, Number]:
    """At least none is no demand."""
    limits = {name: schema[name] for name in (least, most) if name in schema}
    return {name: value for name, value in limits.items() if name != least or value > 0}


def _child(place: Place, keyword: str) -> Place | None:
    assert isinstance(place.schema, dict)
    value = place.schema.get(keyword)
    return place.inner(value, f"/{keyword}") if isinstance(value, dict | bool) else None


def _listed(place: Place, keyword: str) -> list[Place]:
    assert isinstance(place.schema, dict)
    value = place.schema.get(keyword)
    if not isinstance(value, list):
        return []
    return [place.inner(item, f"/{keyword}/{index}") for index, item in enumerate(value)]


def _named(place: Place, keyword: str) -> dict[str, Place]:
    assert isinstance(place.schema, dict)
    return {
        name: place.inner(item, f"/{keyword}/{pointer_segment(name)}")
        for name, item in place.schema.get(keyword, {}).items()
        if isinstance(item, dict | bool)
    }
