"""Rules for allOf, anyOf and oneOf: each part of the smaller side needs a partner of its own."""

from collections import deque

from goqueue.schema_formats.json_schema.documents import Subschema
from goqueue.schema_formats.json_schema.json_text import compact
from goqueue.schema_formats.json_schema.reasons import Pair, Reason, Steps
from goqueue.schema_formats.json_schema.shapes import Combination, Shape

Part = Subschema | Shape


def compare_combinations(writer: Combination, reader: Combination) -> Steps:
    if not _criterion_fits(writer, reader):
        text = f"the writer's {writer.criterion} is {reader.criterion} for the reader"
        return [Reason("COMBINED_TYPE_CHANGED", text)]
    had, wanted = _distinct(writer), _distinct(reader)
    if len(had) < len(wanted) and reader.criterion == "allOf":
        text = f"the reader demands {len(wanted)} schemas at once, the writer {len(had)}"
        return [Reason("PRODUCT_TYPE_EXTENDED", text)]
    if len(had) > len(wanted) and writer.criterion != "allOf":
        text = f"the reader knows {len(wanted)} alternatives, the writer {len(had)}"
        return [Reason("SUM_TYPE_NARROWED", text)]
    return (yield from _compare_parts(had, wanted))


def _criterion_fits(writer: Combination, reader: Combination) -> bool:
    """Of a single schema, all, any and one are the same; and all of many fit any of them."""
    if reader.criterion in (writer.criterion, "anyOf"):
        return True
    if reader.criterion == "oneOf":
        return len(writer.parts) == 1 or (writer.criterion == "allOf" and len(reader.parts) == 1)
    return len(writer.parts) == len(reader.parts) == 1


def _distinct(combination: Combination) -> dict[str, Part]:
    """By their text, so that a repeated schema counts once."""
    return {
        f"#{index}" if isinstance(part, Shape) else compact(part.schema, sort_keys=True): part
        for index, part in enumerate(combination.parts)
    }


def _compare_parts(had: dict[str, Part], wanted: dict[str, Part]) -> Steps:
    """Builds up a maximum matching (Kuhn), up to the first part that can have no partner."""
    from_writer = len(had) <= len(wanted)
    few, many = (had, wanted) if from_writer else (wanted, had)
    partner_of: dict[str, str] = {}  # of `many`, in `few`
    for start in few:
        reached_from: dict[str, str] = {}
        waiting = deque([start])
        free = None
        while waiting and free is None:
            part = waiting.popleft()
            # An equal text first: that is mostly the partner.
            for other in (*((part,) if part in many else ()), *many):
                if other in reached_from:
                    continue
                pair = Pair(few[part], many[other])
                if (yield pair if from_writer else Pair(pair.reader, pair.writer)):
                    continue
                reached_from[other] = part
                if other not in partner_of:
                    free = other
                    break
                waiting.append(partner_of[other])
        if free is None:
            side = "writer" if from_writer else "reader"
            position = list(few).index(start)
            text = f"part {position} of the {side}'s schemas has none that fits on the other side"
            return [Reason("COMBINED_TYPE_SUBSCHEMAS_CHANGED", text)]
        _give_partners(free, start, reached_from, partner_of)
    return []


def _give_partners(
    free: str, start: str, reached_from: dict[str, str], partner_of: dict[str, str]
) -> None:
    """Along the way that was found, each part leaves its partner for the next one."""
    former_of = {part: other for other, part in partner_of.items()}
    while True:
        part = reached_from[free]
        partner_of[free] = part
        if part == start:
            return
        free = former_of[part]
