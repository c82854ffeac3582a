"""Whether data written with one JSON Schema can be read with another.

The verdicts are those of Confluent's registry (its `SchemaDiff`, original = writer, update =
reader): rules per keyword that a person can foresee, rather than a proof about all documents.
"""

from typing import Final

from goqueue.model.schemas.formats import Incompatibility, InvalidSchema, SchemaSource
from goqueue.schema_formats.json_schema.array_rules import compare_arrays
from goqueue.schema_formats.json_schema.combination_rules import compare_combinations
from goqueue.schema_formats.json_schema.documents import Documents
from goqueue.schema_formats.json_schema.object_rules import compare_objects
from goqueue.schema_formats.json_schema.reasons import Pair, Path, Reason, Steps, path_text
from goqueue.schema_formats.json_schema.shapes import (
    EVERYTHING,
    NOTHING,
    Arrays,
    Combination,
    Constant,
    Enumeration,
    Negation,
    Numbers,
    Objects,
    Shape,
    Shapes,
    Strings,
)
from goqueue.schema_formats.json_schema.value_rules import (
    compare_constants,
    compare_enumerations,
    compare_numbers,
    compare_strings,
)

# Nobody reads more, and definitions used in many places would multiply them.
MAX_REASONS: Final = 100
# Alternatives are compared each with each; this many take a few seconds.
MAX_COMPARISONS: Final = 200_000

Key = tuple[int, int]


def incompatibilities(reader: SchemaSource, writer: SchemaSource) -> list[Incompatibility]:
    """At most `MAX_REASONS`; raises `InvalidSchema` when one is wrong or too big to compare."""
    pair = Pair(Documents(writer).root, Documents(reader).root)
    return [
        Incompatibility(reason.kind, path_text(reason.path), reason.message)
        for reason in _Comparison().reasons(pair)
    ]


class _Comparison:
    """One run. A pair that is met again while it is being compared is taken to fit."""

    def __init__(self) -> None:
        self._shapes = Shapes()
        self._known: dict[Key, list[Reason]] = {}
        self._taken_to_fit: set[Key] = set()
        self._compared = 0

    def reasons(self, pair: Pair) -> list[Reason]:
        while True:
            reasons = self._run(pair)
            # Taking a pair to fit can only hide reasons, so reasons found are right in any case.
            mistaken = any(self._known[key] for key in self._taken_to_fit)
            if reasons or not mistaken:
                return reasons
            self._known = {key: found for key, found in self._known.items() if found}
            self._taken_to_fit.clear()

    def _run(self, pair: Pair) -> list[Reason]:
        running: dict[Key, Steps] = {}
        answer = self._ask(pair, running)
        while running:
            key, steps = next(reversed(running.items()))
            try:
                question = next(steps) if answer is None else steps.send(answer)
                answer = self._ask(question, running)
            except StopIteration as end:
                del running[key]
                answer = self._known[key] = end.value[:MAX_REASONS]
        assert answer is not None
        return answer

    def _ask(self, pair: Pair, running: dict[Key, Steps]) -> list[Reason] | None:
        """The answer if it is there already; otherwise the pair's rules are set going."""
        writer, reader = self._shapes.of(pair.writer), self._shapes.of(pair.reader)
        key = (id(writer), id(reader))
        if key in self._known:
            return self._known[key]
        if key in running:
            self._taken_to_fit.add(key)
            return []
        self._compared += 1
        if self._compared > MAX_COMPARISONS:
            raise InvalidSchema(
                f"the schemas need more than {MAX_COMPARISONS} comparisons of their parts; "
                "use fewer alternatives in allOf, anyOf and oneOf"
            )
        running[key] = _compare(self._shapes, writer, reader)
        return None


def _compare(shapes: Shapes, writer: Shape, reader: Shape) -> Steps:
    if writer is NOTHING or reader is EVERYTHING:
        return []
    if isinstance(writer, Combination) and isinstance(reader, Combination):
        return (yield from compare_combinations(writer, reader))
    if isinstance(reader, Combination):
        if len(reader.parts) == 1 or reader.criterion != "allOf":
            for part in reader.parts:
                if not (yield Pair(writer, part)):
                    return []
        return [_type_changed(writer, reader)]
    if isinstance(writer, Combination):
        if len(writer.parts) == 1 or writer.criterion == "allOf":
            for part in writer.parts:
                if not (yield Pair(part, reader)):
                    return []
        return [_type_changed(writer, reader)]
    return (yield from _compare_kinds(shapes, writer, reader))


def _compare_kinds(shapes: Shapes, writer: Shape, reader: Shape) -> Steps:
    match writer, reader:
        case Strings(), Strings():
            return compare_strings(writer, reader)
        case Numbers(), Numbers():
            return compare_numbers(writer, reader)
        case Enumeration(), Enumeration():
            return compare_enumerations(writer, reader)
        case Constant(), Constant():
            return compare_constants(writer, reader)
        case Arrays(), Arrays():
            return (yield from compare_arrays(shapes, writer, reader))
        case Objects(), Objects():
            return (yield from compare_objects(shapes, writer, reader))
        case Negation(), Negation():
            # What the reader refuses, the writer must have refused: the other way round.
            if not (yield Pair(reader.refused, writer.refused)):
                return []
            text = "the reader's not refuses what the writer's allows"
            return [Reason("NOT_TYPE_EXTENDED", text, Path("not"))]
    return [] if type(writer) is type(reader) else [_type_changed(writer, reader)]


def _type_changed(writer: Shape, reader: Shape) -> Reason:
    text = f"the writer has {_words(writer)}, the reader {_words(reader)}"
    return Reason("TYPE_CHANGED", text)


def _words(shape: Shape) -> str:
    if isinstance(shape, Combination):
        return f"{shape.criterion} of {len(shape.parts)} schemas"
    if isinstance(shape, Numbers) and shape.integers_only:
        return "integers"
    return type(shape).__name__.lower()
