"""Regular expressions over names, by RE2: the time is linear in the name, whatever the pattern.

Kafka matches with RE2/J, which has the same syntax: no backreferences, no look-around. As in Kafka
the whole name must match.
"""

from collections.abc import Iterable
from typing import Final

import re2

# RE2 has no limit on length; a request does. Longer patterns are mistakes.
PATTERN_MAX_LENGTH: Final = 1_000
# RE2's memory for one pattern: half a megabyte of program would take 3 ms for each long name.
PATTERN_MAX_BYTES: Final = 256 * 1024
# Instructions of a pattern's program times characters of names. The worst patterns make RE2 build a
# new state for each character, at up to 50 ns for a step; others need a nanosecond. `orders-.*` has
# 19 instructions and may be held against 17,000 names of 30 characters.
STEPS_MAX: Final = 10_000_000


class InvalidRegex(ValueError):
    """The pattern is no regular expression, uses what RE2 has not, or is too much work."""


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = PATTERN_MAX_BYTES
    options.never_capture = True
    options.log_errors = False
    return options


_OPTIONS: Final = _options()


class TopicRegex:
    """One compiled pattern."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_MAX_LENGTH:
            raise InvalidRegex(
                f"the pattern has {len(pattern)} characters; the limit is {PATTERN_MAX_LENGTH}"
            )
        try:
            self._regex = re2.compile(pattern, options=_OPTIONS)
        except re2.error as error:
            reason = error.args[0]
            said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise InvalidRegex(f"{pattern!r}: {said}") from None
        except UnicodeEncodeError:
            raise InvalidRegex(f"{pattern!r}: is not Unicode text") from None

    def matches(self, name: str) -> bool:
        return self._regex.fullmatch(name) is not None

    def check_work(self, names_length: int) -> None:
        """Raise `InvalidRegex` if it cannot be held against names of this length together."""
        size = self._regex.programsize
        if size * names_length > STEPS_MAX:
            raise InvalidRegex(
                f"the pattern has {size} instructions, which {names_length} characters of names "
                f"would be held against: {size * names_length} steps, the limit is {STEPS_MAX}; "
                "make it simpler"
            )


# Matches no name: every topic's has a character.
_NO_TOPIC: Final = TopicRegex("")


def _known(pattern: str) -> TopicRegex:
    """A pattern that a group has stored; earlier releases took some that RE2 does not."""
    try:
        return TopicRegex(pattern)
    except InvalidRegex:
        return _NO_TOPIC


class RegexCache:
    """Which topics each pattern in use matches, kept up with the topics that come and go."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._names_length = 0
        self._compiled: dict[str, TopicRegex] = {}
        self._matched: dict[str, frozenset[str]] = {}

    def check(self, pattern: str) -> None:
        """Raise `InvalidRegex` unless the pattern can be used."""
        if pattern not in self._compiled:
            TopicRegex(pattern).check_work(self._names_length)

    def topics(self, pattern: str) -> frozenset[str]:
        if pattern not in self._matched:
            regex = self._compiled[pattern] = _known(pattern)
            self._matched[pattern] = frozenset(filter(regex.matches, self._names))
        return self._matched[pattern]

    def set_names(self, names: frozenset[str]) -> None:
        added, deleted = names - self._names, self._names - names
        self._names = names
        self._names_length += sum(map(len, added)) - sum(map(len, deleted))
        for pattern, regex in self._compiled.items():
            found = frozenset(filter(regex.matches, added))
            self._matched[pattern] = (self._matched[pattern] - deleted) | found

    def keep_only(self, patterns: Iterable[str]) -> None:
        """Forget patterns that no group uses any more."""
        for pattern in self._compiled.keys() - set(patterns):
            del self._compiled[pattern], self._matched[pattern]
