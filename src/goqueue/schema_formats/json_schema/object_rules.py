"""Rules for objects: properties under open, partially open and closed content models.

A content model says what the properties are that no keyword names: anything (open), what fits a
pattern or a schema (partially open), or nothing at all (closed).
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from goqueue.schema_formats.json_schema.content_models import compare_removed, compare_rest
from goqueue.schema_formats.json_schema.documents import Subschema
from goqueue.schema_formats.json_schema.reasons import (
    Pair,
    Path,
    Reason,
    Steps,
    limit_reasons,
    under,
)
from goqueue.schema_formats.json_schema.shapes import EVERYTHING, NOTHING, Objects, Shapes
from goqueue.schema_formats.json_schema.validation import pattern_options

if TYPE_CHECKING:
    import jsonschema_rs


def compare_objects(shapes: Shapes, writer: Objects, reader: Objects) -> Steps:
    reasons = _required_reasons(writer, reader) + limit_reasons(writer.limits, reader.limits)
    for name in dict.fromkeys([*writer.properties, *reader.properties]):
        if name not in reader.properties:
            had, covering = writer.properties[name], _covering(reader, name)
            found = yield from compare_removed(shapes, "property", name, had, covering)
        elif name not in writer.properties:
            found = yield from _compare_added(shapes, writer, reader, name)
        else:
            found = yield Pair(writer.properties[name], reader.properties[name])
        reasons += under(("properties", name), found)
    reasons += yield from _compare_dependencies(writer, reader)
    additional = (writer.additional, reader.additional)
    reasons += yield from compare_rest(shapes, "additionalProperties", *additional)
    unevaluated = (writer.unevaluated, reader.unevaluated)
    reasons += yield from compare_rest(shapes, "unevaluatedProperties", *unevaluated)
    return reasons


def _required_reasons(writer: Objects, reader: Objects) -> list[Reason]:
    """For properties that both declare; the reader fills in a default."""
    return [
        Reason(
            "REQUIRED_ATTRIBUTE_ADDED",
            f"the reader requires {name!r} and has no default for it, the writer may leave it out",
            Path("required", Path(name)),
        )
        for name in sorted(reader.required - writer.required)
        if name in writer.properties
        and name in reader.properties
        and not _has_default(reader.properties[name])
    ]


def _compare_added(shapes: Shapes, writer: Objects, reader: Objects, name: str) -> Steps:
    """What counts is the writer's content model: what it may have written under this name."""
    wanted, covering = reader.properties[name], _covering(writer, name)
    if shapes.of(covering) is EVERYTHING:
        if shapes.of(wanted) is EVERYTHING:
            return []
        text = f"the writer may have written anything as {name!r}, which the reader declares"
        return [Reason(f"{_kind_of(reader, name)}_ADDED_TO_OPEN_CONTENT_MODEL", text)]
    reasons: list[Reason] = []
    if shapes.of(covering) is not NOTHING:
        reasons += yield Pair(covering, wanted)
        if reasons:
            text = f"the writer's other properties do not fit what the reader has as {name!r}"
            kind = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            reasons.append(Reason(kind, text))
    if name in reader.required and not _has_default(wanted):
        text = f"the reader requires {name!r} and has no default for it; the writer has it not"
        reasons.append(Reason("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", text))
    return reasons


def _kind_of(owner: Objects, name: str) -> str:
    if name not in owner.required:
        return "OPTIONAL_PROPERTY"
    has_default = _has_default(owner.properties[name])
    return "REQUIRED_PROPERTY_WITH_DEFAULT" if has_default else "REQUIRED_PROPERTY"


def _covering(owner: Objects, name: str) -> Subschema | None:
    """What the schema demands of a property that it does not name."""
    for pattern, subschema in owner.patterns.items():
        if _compiled(pattern).is_valid(name):
            return subschema
    return owner.unevaluated if owner.additional is None else owner.additional


@lru_cache(maxsize=256)  # of patterns: more than a schema has, and small
def _compiled(pattern: str) -> "jsonschema_rs.Validator":
    import jsonschema_rs

    schema = {"pattern": pattern}
    return jsonschema_rs.validator_for(schema, pattern_options=pattern_options(), offline=True)


def _has_default(subschema: Subschema) -> bool:
    return isinstance(subschema.schema, dict) and "default" in subschema.schema


def _compare_dependencies(writer: Objects, reader: Objects) -> Steps:
    reasons: list[Reason] = []
    for name, wanted in reader.required_with.items():
        had = writer.required_with.get(name)
        if had is not None and wanted <= had:
            continue
        kind = "ADDED" if had is None else "EXTENDED" if wanted > had else "CHANGED"
        text = f"beside {name!r} the reader requires properties which the writer does not"
        reasons += under(("dependencies", name), [Reason(f"DEPENDENCY_ARRAY_{kind}", text)])
    for name, subschema in reader.schemas_with.items():
        if name in writer.schemas_with:
            found = yield Pair(writer.schemas_with[name], subschema)
        else:
            text = f"the reader has a schema for objects with {name!r}, the writer has none"
            found = [Reason("DEPENDENCY_SCHEMA_ADDED", text)]
        reasons += under(("dependencies", name), found)
    return reasons
