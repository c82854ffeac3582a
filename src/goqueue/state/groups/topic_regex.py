"""Regular expressions over names, by RE2: the time is linear in the name, whatever the pattern.

Kafka matches with RE2/J, which has the same syntax: no backreferences, no look-around. As in Kafka
the whole name must match.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import re2

from goqueue.model.security.tenants import split_pattern, tenant_of_topic

# RE2 has no limit on length; a request does. Longer patterns are mistakes.
PATTERN_MAX_LENGTH: Final = 1_000
# RE2's memory for one pattern: half a megabyte of program would take 3 ms for each long name.
PATTERN_MAX_BYTES: Final = 256 * 1024
# Instructions of a pattern's program times characters of names. The worst patterns make RE2 build a
# new state for each character, at up to 50 ns for a step; others need a nanosecond. `orders-.*` has
# 19 instructions and may be held against 17,000 names of 30 characters.
STEPS_MAX: Final = 10_000_000
# Patterns of requests on their way to their group. Some are refused there for other reasons, and
# nobody says so here.
READY_MAX: Final = 16


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
    """One compiled pattern; a tenant's is about what its names have behind the tenant."""

    def __init__(self, pattern: str) -> None:
        self.prefix, pattern = split_pattern(pattern)
        if len(pattern) > PATTERN_MAX_LENGTH:
            raise InvalidRegex(
                f"the pattern has {len(pattern)} characters; the limit is {PATTERN_MAX_LENGTH}"
            )
        try:
            self._regex = re2.compile(pattern, options=_OPTIONS)
            # Who needs it keeps it; RE2's own list of the last 128 would keep all.
            re2.purge()
        except re2.error as error:
            reason = error.args[0]
            said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise InvalidRegex(f"{pattern!r}: {said}") from None
        except UnicodeEncodeError:
            raise InvalidRegex(f"{pattern!r}: is not Unicode text") from None

    def matches(self, name: str) -> bool:
        if not self.prefix:
            return self._regex.fullmatch(name) is not None
        if not name.startswith(self.prefix):
            return False
        return self._regex.fullmatch(name[len(self.prefix) :]) is not None

    def matches_topic(self, name: str) -> bool:
        """Of a pattern without a tenant: topics of tenants are not among what it finds."""
        return self.matches(name) and (bool(self.prefix) or not tenant_of_topic(name))

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


class _Change(NamedTuple):
    added: frozenset[str]
    deleted: frozenset[str]


class RegexCache:
    """Which topics each pattern in use matches, kept up with the topics that come and go.

    All patterns together take long: each is held against new names when its topics are asked for,
    or in `catch_up`.
    """

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._names_length = 0
        self._compiled: dict[str, TopicRegex] = {}
        self._matched: dict[str, frozenset[str]] = {}
        # What patterns have not been held against yet, in the order of the changes.
        self._behind: dict[str, deque[_Change]] = {}
        # Those of the patterns that nobody has asked for yet, oldest first.
        self._ready: dict[str, None] = {}

    def match_stepwise(self, pattern: str) -> Iterator[None]:
        """Hold a new pattern against the names, one in each step, so that `topics` has the answer
        at hand. Names may come and go between two steps. Raises `InvalidRegex`."""
        if pattern in self._matched:
            return
        regex = TopicRegex(pattern)
        regex.check_work(self._names_length)
        names = self._names
        found = set()
        for name in names:
            if regex.matches_topic(name):
                found.add(name)
            yield
        found = {
            name for name in self._names - names if regex.matches_topic(name)
        } | found & self._names
        self._compiled[pattern] = regex
        self._matched[pattern] = frozenset(found)
        self._behind.pop(pattern, None)
        self._ready[pattern] = None
        if len(self._ready) > READY_MAX:
            self._forget(next(iter(self._ready)))

    def check(self, pattern: str) -> None:
        """Raise `InvalidRegex` unless the pattern can be used."""
        if pattern not in self._compiled:
            TopicRegex(pattern).check_work(self._names_length)

    def topics(self, pattern: str) -> frozenset[str]:
        self._ready.pop(pattern, None)
        if pattern not in self._matched:
            regex = self._compiled[pattern] = _known(pattern)
            self._matched[pattern] = frozenset(filter(regex.matches_topic, self._names))
        while pattern in self._behind:
            self._take_change(pattern)
        return self._matched[pattern]

    def set_names(self, names: frozenset[str]) -> None:
        added, deleted = names - self._names, self._names - names
        self._names = names
        self._names_length += sum(map(len, added)) - sum(map(len, deleted))
        if added or deleted:
            change = _Change(added, deleted)
            for pattern in self._compiled:
                self._behind.setdefault(pattern, deque()).append(change)

    def catch_up(self) -> Iterator[None]:
        """Hold patterns against the names that came, one pattern and change in each step."""
        while self._behind:
            self._take_change(next(iter(self._behind)))
            yield

    def _take_change(self, pattern: str) -> None:
        changes = self._behind[pattern]
        added, deleted = changes.popleft()
        if not changes:
            del self._behind[pattern]
        found = frozenset(filter(self._compiled[pattern].matches_topic, added))
        self._matched[pattern] = (self._matched[pattern] - deleted) | found

    def keep_only(self, patterns: Iterable[str]) -> None:
        """Forget patterns that no group uses any more."""
        for pattern in self._compiled.keys() - self._ready.keys() - set(patterns):
            self._forget(pattern)

    def _forget(self, pattern: str) -> None:
        self._ready.pop(pattern, None)
        self._behind.pop(pattern, None)
        del self._compiled[pattern], self._matched[pattern]
