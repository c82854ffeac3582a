"""Rules for what no keyword names: additional and unevaluated properties and items."""

import re
from typing import Final

from goqueue.schema_formats.json_schema.documents import Subschema
from goqueue.schema_formats.json_schema.reasons import Pair, Path, Reason, Steps, under
from goqueue.schema_formats.json_schema.shapes import EVERYTHING, NOTHING, Shapes

_WORD_START: Final = re.compile(r"(?=[A-Z])")


def compare_rest(
    shapes: Shapes, keyword: str, writer: Subschema | None, reader: Subschema | None
) -> Steps:
    """The rest may become allowed or freer, but not refused or narrower."""
    kind = _WORD_START.sub("_", keyword).upper()
    had, wanted = shapes.of(writer), shapes.of(reader)
    if had is NOTHING or wanted is EVERYTHING:
        return []
    if wanted is NOTHING:
        text = f"the reader's {keyword} refuse what the writer's allow"
        return [Reason(f"{kind}_REMOVED", text, Path(keyword))]
    if had is EVERYTHING:
        text = f"the reader's {keyword} must fit a schema, the writer's may be anything"
        return [Reason(f"{kind}_NARROWED", text, Path(keyword))]
    reasons = yield Pair(writer, reader)
    return under((keyword,), reasons)


def compare_removed(
    shapes: Shapes, thing: str, name: object, had: Subschema, covering: Subschema | None
) -> Steps:
    """A property or item that only the writer declares: does the reader's model cover it?"""
    if shapes.of(covering) is NOTHING:
        if shapes.of(had) is NOTHING:
            return []
        text = f"the reader does not know {thing} {name!r} and allows none that it does not know"
        return [Reason(f"{thing.upper()}_REMOVED_FROM_CLOSED_CONTENT_MODEL", text)]
    reasons = yield Pair(had, covering)
    if not reasons:
        return []
    text = f"the writer's {thing} {name!r} does not fit what the reader allows besides its own"
    kind = f"{thing.upper()}_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
    return [*reasons, Reason(kind, text)]
