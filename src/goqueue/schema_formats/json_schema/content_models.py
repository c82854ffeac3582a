"""Rules for what no keyword names: additional and unevaluated properties and items."""

import re
from typing import Final

from goqueue.schema_formats.json_schema.documents import Place
from goqueue.schema_formats.json_schema.reasons import Pair, Path, Reason, Steps, under
from goqueue.schema_formats.json_schema.shapes import EVERYTHING, NOTHING, Shapes

_WORD_START: Final = re.compile(r"(?=[A-Z])")


def compare_rest(shapes: Shapes, keyword: str, writer: Place | None, reader: Place | None) -> Steps:
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
