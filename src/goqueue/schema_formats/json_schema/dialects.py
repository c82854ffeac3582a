"""The drafts of JSON Schema and how their keywords are spelled."""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final

from goqueue.model.schemas.formats import InvalidSchema

Schema = dict[str, Any] | bool


class Draft(IntEnum):
    DRAFT_04 = 4
    DRAFT_06 = 6
    DRAFT_07 = 7
    DRAFT_2019_09 = 2019
    DRAFT_2020_12 = 2020


META_SCHEMAS: Final = {
    Draft.DRAFT_04: "http://json-schema.org/draft-04/schema#",
    Draft.DRAFT_06: "http://json-schema.org/draft-06/schema#",
    Draft.DRAFT_07: "http://json-schema.org/draft-07/schema#",
    Draft.DRAFT_2019_09: "https://json-schema.org/draft/2019-09/schema",
    Draft.DRAFT_2020_12: "https://json-schema.org/draft/2020-12/schema",
}

# Where schemas stand inside a schema, of all drafts: directly, in a list, or in a map by name.
_HOLDS_SCHEMAS: Final = frozenset(
    {"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "contentSchema"}
    | {"additionalProperties", "unevaluatedProperties", "propertyNames"}
    | {"allOf", "anyOf", "oneOf", "not", "if", "then", "else"}
)
_HOLDS_NAMED_SCHEMAS: Final = frozenset(
    ("$defs", "definitions", "properties", "patternProperties", "dependencies", "dependentSchemas")
)
# These judge the same value as the schema they stand in, not a part of it.
IN_PLACE: Final = frozenset(
    ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependencies", "dependentSchemas")
)


def draft_of(schema: Schema) -> Draft:
    """By `$schema`; draft-07 without, as Confluent's registry has it."""
    if isinstance(schema, bool) or "$schema" not in schema:
        return Draft.DRAFT_07
    declared = schema["$schema"]
    for draft, uri in META_SCHEMAS.items():
        if isinstance(declared, str) and _bare(declared) == _bare(uri):
            return draft
    known = ", ".join(META_SCHEMAS.values())
    raise InvalidSchema(f"$schema is {str(declared)[:100]!r}; it must be one of {known}")


def _bare(uri: str) -> str:
    return uri.rstrip("#").removeprefix("https://").removeprefix("http://")


def reference_keywords(draft: Draft) -> tuple[str, ...]:
    """Dynamic references are followed to where they point without a dynamic scope."""
    if draft >= Draft.DRAFT_2020_12:
        return ("$ref", "$dynamicRef")
    return ("$ref", "$recursiveRef") if draft == Draft.DRAFT_2019_09 else ("$ref",)


def only_refers(schema: dict[str, Any], draft: Draft) -> bool:
    """Up to draft-07, what stands beside a `$ref` is ignored (draft-07 core, 8.3)."""
    return draft <= Draft.DRAFT_07 and isinstance(schema.get("$ref"), str)


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[str, str, Schema]]:
    """Keyword, JSON pointer and schema of each schema directly inside."""
    for keyword, value in schema.items():
        if keyword in _HOLDS_SCHEMAS:
            if isinstance(value, dict | bool):
                yield keyword, f"/{keyword}", value
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, dict | bool):
                        yield keyword, f"/{keyword}/{index}", item
        elif keyword in _HOLDS_NAMED_SCHEMAS and isinstance(value, dict):
            for name, item in value.items():
                if isinstance(item, dict | bool):
                    yield keyword, f"/{keyword}/{pointer_segment(name)}", item


def pointer_segment(name: str) -> str:
    """RFC 6901, section 3."""
    return name.replace("~", "~0").replace("/", "~1")
