"""How much work a payload can make for a schema: a bound that is found in the schema alone.

A validator looks at a value once for every way that leads to it, and remembers nothing. Two
branches of an `anyOf` that both refer to the schema itself double the work with each level of the
payload; thirty definitions that each name the next one twice take 2^30 steps for any payload. Here
the ways are counted: for each schema, the most steps that any one place inside its value can cost.
Where that has an end, a payload costs at most that many steps for each of its bytes.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from goqueue.schema_formats.json_schema.dialects import (
    only_refers,
    subschemas,
)
from goqueue.schema_formats.json_schema.documents import (
    Documents,
    Subschema,
    judging_the_same_value,
)

# More steps for a byte than this, and even the smallest payload is checked elsewhere.
STEPS_MAX: Final = 100_000
# Entries of the tables below; a schema of a megabyte that is all branches would fill gigabytes.
ENTRIES_MAX: Final = 200_000
# Inner schemas are looked at before outer ones, so what has an end needs a few rounds.
_ROUNDS_MAX: Final = 32
# Instructions are read for each character; RE2 builds no larger program than this allows.
_PATTERN_MAX_BYTES: Final = 64 * 1024
# Compares or hashes whole values, which may stand inside each other up to the library's depth.
_WHOLE_VALUE_STEPS: Final = 255
_FORMAT_STEPS: Final = 10
# One pass over the string. `regex` compiles what the payload says; others look up long tables.
_QUICK_FORMATS: Final = frozenset(
    {"date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"}
    | {"uri-reference", "json-pointer", "relative-json-pointer"}
)
# These look at what other keywords have looked at, or decode strings; not counted here.
_UNCOUNTED: Final = frozenset(
    {"unevaluatedItems", "unevaluatedProperties", "contentEncoding", "contentMediaType"}
    | {"$dynamicRef", "$recursiveRef"}
)
_OTHER: Final = None  # a property or an item that no keyword names


class _Unbounded(Exception):
    """No bound was found."""


def steps_per_byte(documents: Documents) -> int | None:
    """None when there is no bound, or one that is of no use."""
    try:
        return _Count().run(documents.root)
    except (_Unbounded, RecursionError):
        return None


@dataclass(slots=True)
class _Judgement:
    """What judging one value by a schema comes to, with all schemas that judge the same value.

    `parts` has, for each property or position that is named and for any other, the schemas that
    judge it and how often.
    """

    steps: int
    parts: list[Counter[int]] = field(default_factory=list)
    most: int = 0


class _Count:
    def __init__(self) -> None:
        self._entries = 0
        self._schemas: dict[int, Subschema] = {}
        self._closures: dict[int, Counter[int]] = {}
        self._judgements: dict[int, _Judgement] = {}

    def run(self, root: Subschema) -> int:
        if isinstance(root.schema, bool):
            return 1
        self._explore(root)
        # Found last are the innermost ones, as far as there is an order.
        judgements = list(reversed(self._judgements.values()))
        for _ in range(_ROUNDS_MAX):
            has_grown = False
            for judgement in judgements:
                most = max(
                    (
                        sum(self._judgements[part].most * times for part, times in parts.items())
                        for parts in judgement.parts
                    ),
                    default=0,
                )
                most = max(most, judgement.steps)
                if most > STEPS_MAX:
                    raise _Unbounded
                if most > judgement.most:
                    judgement.most = most
                    has_grown = True
            if not has_grown:
                return self._judgements[id(root.schema)].most
        raise _Unbounded

    def _explore(self, root: Subschema) -> None:
        waiting = [self._known(root)]
        while waiting:
            key = waiting.pop()
            if key in self._judgements:
                continue
            closure = self._closure(key)
            steps = sum(_steps(self._schemas[one]) * times for one, times in closure.items())
            judgement = self._judgements[key] = _Judgement(steps)
            judgement.parts = self._parts(closure)
            waiting.extend(part for parts in judgement.parts for part in parts)

    def _known(self, subschema: Subschema) -> int:
        key = id(subschema.schema)
        self._schemas.setdefault(key, subschema)
        return key

    def _spend(self, entries: int) -> None:
        self._entries += entries
        if self._entries > ENTRIES_MAX:
            raise _Unbounded

    def _closure(self, key: int) -> Counter[int]:
        """Itself and all schemas that judge the same value, with how often each does.

        There are no circles: `Documents` refuses them.
        """
        found = self._closures.get(key)
        if found is None:
            found = Counter({key: 1})
            for inner in judging_the_same_value(self._schemas[key]):
                found.update(self._closure(self._known(inner)))
                if found.total() > STEPS_MAX:
                    raise _Unbounded
            self._spend(len(found))
            self._closures[key] = found
        return found

    def _parts(self, closure: Counter[int]) -> list[Counter[int]]:
        judges = [(_Judges(self._schemas[one]), times) for one, times in closure.items()]
        parts = []
        for kind in ("properties", "items"):
            names = {name for judge, _ in judges for name in judge.named(kind)}
            self._spend((len(names) + 1) * len(judges))
            for name in (*names, _OTHER):
                of_part: Counter[int] = Counter()
                for judge, times in judges:
                    for subschema in judge.of(kind, name):
                        of_part[self._known(subschema)] += times
                if of_part:
                    parts.append(of_part)
        keys: Counter[int] = Counter()
        for judge, times in judges:
            for subschema in judge.keys:
                keys[self._known(subschema)] += times
        return [*parts, keys]


class _Judges:
    """Which schemas directly inside one judge which parts of a value."""

    def __init__(self, subschema: Subschema) -> None:
        self._named: dict[str, dict[object, Subschema]] = {"properties": {}, "items": {}}
        self._others: dict[str, list[Subschema]] = {"properties": [], "items": []}
        self._always: dict[str, list[Subschema]] = {"properties": [], "items": []}
        self.keys: list[Subschema] = []
        schema = subschema.schema
        assert isinstance(schema, dict)
        if not only_refers(schema, subschema.draft):
            for keyword, pointer, inner in subschemas(schema):
                if isinstance(inner, dict):
                    self._place(schema, keyword, pointer, subschema.inner(inner, pointer))

    def _place(self, schema: dict[str, Any], keyword: str, pointer: str, inner: Subschema) -> None:
        is_listed = isinstance(schema[keyword], list)
        if keyword == "properties":
            self._named["properties"][pointer] = inner
        elif keyword == "patternProperties":
            self._always["properties"].append(inner)
        elif keyword == "additionalProperties":
            self._others["properties"].append(inner)
        elif keyword == "propertyNames":
            self.keys.append(inner)
        elif keyword == "contains":
            self._always["items"].append(inner)
        elif keyword in ("items", "prefixItems") and is_listed:
            self._named["items"][pointer.rpartition("/")[2]] = inner
        elif keyword in ("items", "additionalItems"):
            self._others["items"].append(inner)

    def named(self, kind: str) -> Iterator[object]:
        return iter(self._named[kind])

    def of(self, kind: str, name: object) -> list[Subschema]:
        named = self._named[kind].get(name)
        return [*(self._others[kind] if named is None else [named]), *self._always[kind]]


def _steps(subschema: Subschema) -> int:
    """What the schema's own keywords cost for each byte that stands directly in a value."""
    schema = subschema.schema
    assert isinstance(schema, dict)
    if only_refers(schema, subschema.draft):
        return 1
    return 1 + sum(_keyword_steps(keyword, value) for keyword, value in schema.items())


def _keyword_steps(keyword: str, value: Any) -> int:
    if keyword in _UNCOUNTED:
        raise _Unbounded
    if keyword == "pattern":
        return _pattern_steps(value)
    if keyword == "patternProperties":
        return sum(map(_pattern_steps, value))
    if keyword == "format":
        if value not in _QUICK_FORMATS:
            raise _Unbounded
        return _FORMAT_STEPS
    if keyword == "uniqueItems":
        return _WHOLE_VALUE_STEPS
    if keyword in ("enum", "const"):
        return _size(value)
    if keyword in ("$defs", "definitions"):
        return 0
    return len(value) if isinstance(value, dict | list) else 1


def _pattern_steps(pattern: str) -> int:
    import re2

    options = re2.Options()
    options.max_mem = _PATTERN_MAX_BYTES
    options.log_errors = False
    try:
        size: int = re2.compile(pattern, options=options).programsize
    except (re2.error, UnicodeEncodeError):
        raise _Unbounded from None
    return size


def _size(value: Any) -> int:
    """How many values stand in it."""
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return 1 + sum(map(_size, value)) if isinstance(value, list) else 1
