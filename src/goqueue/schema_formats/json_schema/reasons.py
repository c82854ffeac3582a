"""Why a pair of schemas does not fit, and the steps by which rules ask about inner pairs."""

import re
from collections.abc import Generator
from typing import Final, NamedTuple

from goqueue.schema_formats.json_schema.dialects import pointer_segment
from goqueue.schema_formats.json_schema.documents import Subschema
from goqueue.schema_formats.json_schema.shapes import Number, Shape


class Path(NamedTuple):
    """A step and those after it: going before a long path costs no more than before a short one."""

    step: str
    rest: "Path | None" = None


class Reason(NamedTuple):
    """`path` counts from the pair that was compared."""

    kind: str
    message: str
    path: Path | None = None


class Pair(NamedTuple):
    """A question: can what was written with the first be read with the second?"""

    writer: Subschema | Shape | None
    reader: Subschema | Shape | None


# A rule yields pairs, is sent the reasons against each and returns its own. So the depth of a
# comparison is not bound to the depth of Python's stack.
Steps = Generator[Pair, list[Reason], list[Reason]]

# A path through many definitions can be as long as the schema; its beginning tells enough.
MAX_PATH_STEPS: Final = 100
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def under(steps: tuple[str, ...], reasons: list[Reason]) -> list[Reason]:
    """The reasons as seen from further up."""
    for step in reversed(steps):
        reasons = [Reason(kind, text, Path(step, path)) for kind, text, path in reasons]
    return reasons


def path_text(path: Path | None) -> str:
    """As Confluent writes it: a JSON pointer after `#`, and `#/` for the root."""
    steps: list[str] = []
    while path is not None and len(steps) < MAX_PATH_STEPS:
        steps.append(pointer_segment(path.step))
        path = path.rest
    return "#/" + "/".join(steps if path is None else [*steps, "…"])


def limit_reasons(writer: dict[str, Number], reader: dict[str, Number]) -> list[Reason]:
    """A limit may be loosened or taken away, but not added or tightened."""
    reasons = []
    for keyword, wanted in reader.items():
        kind = _WORD_START.sub("_", keyword).upper()
        had = writer.get(keyword)
        if had is None:
            text = f"the reader has {keyword} {wanted}, the writer has none"
            reasons.append(Reason(f"{kind}_ADDED", text, Path(keyword)))
        elif "max" in keyword.lower() and wanted < had:
            text = f"the reader's {keyword} {wanted} is less than the writer's {had}"
            reasons.append(Reason(f"{kind}_DECREASED", text, Path(keyword)))
        elif "min" in keyword.lower() and wanted > had:
            text = f"the reader's {keyword} {wanted} is more than the writer's {had}"
            reasons.append(Reason(f"{kind}_INCREASED", text, Path(keyword)))
    return reasons
