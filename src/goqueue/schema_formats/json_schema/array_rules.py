"""Rules for arrays: all items, leading items one by one, and the items after those."""

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
from goqueue.schema_formats.json_schema.shapes import EVERYTHING, NOTHING, Arrays, Shapes


def compare_arrays(shapes: Shapes, writer: Arrays, reader: Arrays) -> Steps:
    reasons = limit_reasons(writer.limits, reader.limits)
    if reader.unique and not writer.unique:
        text = "the reader's items must be unique, the writer's need not be"
        reasons.append(Reason("UNIQUE_ITEMS_ADDED", text, Path("uniqueItems")))
    reasons += yield from _compare_all_items(shapes, writer, reader)
    for index in range(max(len(writer.leading), len(reader.leading))):
        if index >= len(reader.leading):
            had, covering = writer.leading[index], _after_leading(reader)
            found = yield from compare_removed(shapes, "item", index, had, covering)
        elif index >= len(writer.leading):
            found = yield from _compare_added(shapes, writer, reader.leading[index], index)
        else:
            found = yield Pair(writer.leading[index], reader.leading[index])
        reasons += under(("items", str(index)), found)
    additional = (writer.additional, reader.additional)
    reasons += yield from compare_rest(shapes, "additionalItems", *additional)
    unevaluated = (writer.unevaluated, reader.unevaluated)
    reasons += yield from compare_rest(shapes, "unevaluatedItems", *unevaluated)
    return reasons


def _compare_all_items(shapes: Shapes, writer: Arrays, reader: Arrays) -> Steps:
    if shapes.of(reader.items) is EVERYTHING:
        return []
    if shapes.of(writer.items) is EVERYTHING:
        text = "the reader has a schema for all items, the writer has none"
        return [Reason("SCHEMA_ADDED", text, Path("items"))]
    reasons = yield Pair(writer.items, reader.items)
    return under(("items",), reasons)


def _compare_added(shapes: Shapes, writer: Arrays, wanted: Subschema, index: int) -> Steps:
    covering = _after_leading(writer)
    if shapes.of(covering) is NOTHING or shapes.of(wanted) is EVERYTHING:
        return []
    if shapes.of(covering) is EVERYTHING:
        text = f"the writer may have written anything as item {index}, which the reader declares"
        return [Reason("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", text)]
    reasons = yield Pair(covering, wanted)
    if not reasons:
        return []
    text = f"the writer's additional items do not fit what the reader has as item {index}"
    return [*reasons, Reason("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", text)]


def _after_leading(owner: Arrays) -> Subschema | None:
    return owner.unevaluated if owner.additional is None else owner.additional
