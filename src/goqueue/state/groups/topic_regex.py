"""Regular expressions over topic names that take linear time, whatever the pattern.

Kafka matches with RE2/J, which has no backreferences or look-around and never backtracks. Python's
`re` backtracks, so one pattern such as `(a+)+$` could stop the broker. Here Python's parser reads
the pattern and a set-of-states automaton, made deterministic on the way, does the matching. As in
Kafka the whole name must match.
"""

import re
from collections.abc import Iterable, Set
from typing import Any, Final

# The parser has no public name; the tests of this file pin what is used of it.
from re import _constants as sre  # type: ignore[attr-defined]  # isort: skip
from re import _parser as sre_parser  # type: ignore[attr-defined]  # isort: skip

# RE2/J has no limit on length; a request does. Longer patterns are mistakes.
PATTERN_MAX_LENGTH: Final = 1_000
# Bounded repeats are unrolled, so `(a{1000}){1000}` would be a million states.
STATES_MAX: Final = 5_000
# The deterministic states are made as names need them and forgotten beyond this many steps.
_STEPS_REMEMBERED_MAX: Final = 20_000

_ACCEPT: Final = 0
_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_DIGIT: Final = frozenset("0123456789")
_TOPIC_ALPHABET: Final = _WORD | frozenset(".-")
_CATEGORIES: Final = {
    sre.CATEGORY_DIGIT: _DIGIT,
    sre.CATEGORY_NOT_DIGIT: _TOPIC_ALPHABET - _DIGIT,
    sre.CATEGORY_WORD: _WORD,
    sre.CATEGORY_NOT_WORD: _TOPIC_ALPHABET - _WORD,
    sre.CATEGORY_SPACE: frozenset[str](),
    sre.CATEGORY_NOT_SPACE: _TOPIC_ALPHABET,
}


class InvalidRegex(ValueError):
    """The pattern is no regular expression, or uses what RE2 has not."""


class TopicRegex:
    """One compiled pattern. Topic names use 64 characters; other characters match nothing."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_MAX_LENGTH:
            raise InvalidRegex(
                f"the pattern has {len(pattern)} characters; the limit is {PATTERN_MAX_LENGTH}"
            )
        try:
            parsed = sre_parser.parse(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidRegex(f"{pattern!r}: {error}") from error
        if parsed.state.flags & ~re.UNICODE:
            raise InvalidRegex(f"{pattern!r}: flags are not supported")
        # Per state: either a set of characters and the next state, or free moves to other states.
        self._reads: list[tuple[frozenset[str], int] | None] = [None]
        self._moves: list[tuple[int, ...]] = [()]
        # States that stand for `^` and `$`: they may be left only at that end of the name.
        self._at_start: set[int] = set()
        self._at_end: set[int] = set()
        start = self._sequence(list(parsed), _ACCEPT)
        self._start = self._closure([start], barred=self._at_end)
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, name: str) -> bool:
        states = self._start
        for character in name:
            step = self._steps.get((states, character))
            if step is None:
                step = self._step(states, character)
            if not step:
                return False
            states = step
        if _ACCEPT in states:
            return True
        return _ACCEPT in self._closure(states, barred=self._at_start if name else set())

    def _step(self, states: frozenset[int], character: str) -> frozenset[int]:
        reached = []
        for state in states:
            read = self._reads[state]
            if read is not None and character in read[0]:
                reached.append(read[1])
        step = self._closure(reached, barred=self._at_start | self._at_end)
        if len(self._steps) >= _STEPS_REMEMBERED_MAX:
            self._steps.clear()
        self._steps[states, character] = step
        return step

    def _closure(self, states: Iterable[int], *, barred: Set[int]) -> frozenset[int]:
        """All states reached by free moves, none of them out of a barred state."""
        seen = set(states)
        open_states = list(seen)
        while open_states:
            state = open_states.pop()
            if state in barred:
                continue
            for reached in self._moves[state]:
                if reached not in seen:
                    seen.add(reached)
                    open_states.append(reached)
        return frozenset(seen)

    # Building goes from the end to the start: each part is given the state that follows it.

    def _state(
        self, read: tuple[frozenset[str], int] | None = None, moves: tuple[int, ...] = ()
    ) -> int:
        if len(self._reads) >= STATES_MAX:
            raise InvalidRegex(f"the pattern needs more than {STATES_MAX} states")
        self._reads.append(read)
        self._moves.append(moves)
        return len(self._reads) - 1

    def _sequence(self, parts: list[Any], following: int) -> int:
        for op, argument in reversed(parts):
            following = self._part(op, argument, following)
        return following

    def _part(self, op: Any, argument: Any, following: int) -> int:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            return self._state(read=(_characters(op, argument), following))
        if op is sre.BRANCH:
            return self._state(moves=tuple(self._sequence(list(b), following) for b in argument[1]))
        if op is sre.SUBPATTERN:
            _, add_flags, del_flags, inner = argument
            if add_flags or del_flags:
                raise InvalidRegex("flags are not supported")
            return self._sequence(list(inner), following)
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            return self._repeat(argument, following)
        if op is sre.AT and argument in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
            return self._anchor(self._at_start, following)
        if op is sre.AT and argument in (sre.AT_END, sre.AT_END_STRING):
            return self._anchor(self._at_end, following)
        raise InvalidRegex(f"{str(op).lower()} is not supported")

    def _anchor(self, anchors: set[int], following: int) -> int:
        state = self._state(moves=(following,))
        anchors.add(state)
        return state

    def _repeat(self, argument: Any, following: int) -> int:
        low, high, inner = argument
        parts = list(inner)
        if high is sre.MAXREPEAT:
            loop = self._state()
            again = self._sequence(parts, loop)
            self._moves[loop] = (again, following)
            following = loop
        else:
            for _ in range(int(high) - int(low)):
                skip = following
                following = self._state(moves=(self._sequence(parts, following), skip))
        for _ in range(int(low)):
            following = self._sequence(parts, following)
        return following


def _characters(op: Any, argument: Any) -> frozenset[str]:
    if op is sre.ANY:
        return _TOPIC_ALPHABET
    if op is sre.LITERAL:
        return frozenset(chr(argument))
    if op is sre.NOT_LITERAL:
        return _TOPIC_ALPHABET - {chr(argument)}
    chosen: set[str] = set()
    negated = False
    for kind, value in argument:
        if kind is sre.NEGATE:
            negated = True
        elif kind is sre.LITERAL:
            chosen.add(chr(value))
        elif kind is sre.RANGE:
            chosen |= {c for c in _TOPIC_ALPHABET if value[0] <= ord(c) <= value[1]}
        elif kind is sre.CATEGORY and value in _CATEGORIES:
            chosen |= _CATEGORIES[value]
        else:
            raise InvalidRegex(f"{str(kind).lower()} is not supported")
    return _TOPIC_ALPHABET - chosen if negated else frozenset(chosen)


class RegexCache:
    """Which topics each pattern in use matches, kept up with the topics that come and go."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._compiled: dict[str, TopicRegex] = {}
        self._matched: dict[str, frozenset[str]] = {}

    def check(self, pattern: str) -> None:
        """Raise `InvalidRegex` unless the pattern can be used."""
        if pattern not in self._compiled:
            TopicRegex(pattern)

    def topics(self, pattern: str) -> frozenset[str]:
        if pattern not in self._matched:
            regex = self._compiled[pattern] = TopicRegex(pattern)
            self._matched[pattern] = frozenset(filter(regex.matches, self._names))
        return self._matched[pattern]

    def set_names(self, names: frozenset[str]) -> None:
        added, deleted = names - self._names, self._names - names
        self._names = names
        for pattern, regex in self._compiled.items():
            found = frozenset(filter(regex.matches, added))
            self._matched[pattern] = (self._matched[pattern] - deleted) | found

    def keep_only(self, patterns: Iterable[str]) -> None:
        """Forget patterns that no group uses any more."""
        for pattern in self._compiled.keys() - set(patterns):
            del self._compiled[pattern], self._matched[pattern]
