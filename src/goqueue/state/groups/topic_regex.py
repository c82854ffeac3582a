"""Regular expressions over names, by RE2: the time is linear in the name, whatever the pattern.

Kafka matches with RE2/J, which has the same syntax: no backreferences, no look-around. As in Kafka
the whole name must match.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Final, NamedTuple

import re2

from goqueue.model.groups.viewer import Viewer
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


class Search(NamedTuple):
    """What a member subscribes to by a pattern: the topics with such names that it may see."""

    pattern: str
    # None: sees all.
    viewer: Viewer | None = None


# Whether a topic of this name is there for the viewer, by the rules as they are now.
Sees = Callable[[Viewer, str], bool]


class _Finder(NamedTuple):
    regex: TopicRegex
    viewer: Viewer | None
    sees: Sees

    def finds(self, name: str) -> bool:
        return self.regex.matches_topic(name) and (
            self.viewer is None or self.sees(self.viewer, name)
        )


class _Change(NamedTuple):
    added: frozenset[str]
    deleted: frozenset[str]


class RegexCache:
    """Which topics each search in use finds, kept up with topics and rights that come and go.

    All searches together take long: each is held against new names when its topics are asked for,
    or in `catch_up`. What other rights make of it counts once `search_again` has looked.
    """

    def __init__(self, sees: Sees = lambda _viewer, _name: True) -> None:
        self._sees = sees
        self._names: frozenset[str] = frozenset()
        self._names_length = 0
        self._finders: dict[Search, _Finder] = {}
        self._found: dict[Search, frozenset[str]] = {}
        # What searches have not been held against yet, in the order of the changes.
        self._behind: dict[Search, deque[_Change]] = {}
        # Those of the searches that nobody has asked for yet, oldest first.
        self._ready: dict[Search, None] = {}

    def match_stepwise(self, search: Search) -> Iterator[None]:
        """Hold a new pattern against the names, one in each step, so that `topics` has the answer
        at hand. Names may come and go between two steps. Raises `InvalidRegex`."""
        if search in self._found:
            return
        regex = TopicRegex(search.pattern)
        regex.check_work(self._names_length)
        finder = _Finder(regex, search.viewer, self._sees)
        found = yield from self._find_stepwise(finder)
        self._finders[search] = finder
        self._found[search] = found
        self._behind.pop(search, None)
        self._ready[search] = None
        if len(self._ready) > READY_MAX:
            self._forget(next(iter(self._ready)))

    def _find_stepwise(self, finder: _Finder) -> Generator[None, None, frozenset[str]]:
        names = self._names
        found = set()
        for name in names:
            if finder.finds(name):
                found.add(name)
            yield
        return frozenset(filter(finder.finds, self._names - names)) | found & self._names

    def check(self, search: Search) -> None:
        """Raise `InvalidRegex` unless the pattern can be used."""
        if search not in self._finders:
            TopicRegex(search.pattern).check_work(self._names_length)

    def topics(self, search: Search) -> frozenset[str]:
        self._ready.pop(search, None)
        if search not in self._found:
            finder = _Finder(_known(search.pattern), search.viewer, self._sees)
            self._finders[search] = finder
            self._found[search] = frozenset(filter(finder.finds, self._names))
        while search in self._behind:
            self._take_change(search)
        return self._found[search]

    def set_names(self, names: frozenset[str]) -> None:
        added, deleted = names - self._names, self._names - names
        self._names = names
        self._names_length += sum(map(len, added)) - sum(map(len, deleted))
        if added or deleted:
            change = _Change(added, deleted)
            for search in self._finders:
                self._behind.setdefault(search, deque()).append(change)

    def catch_up(self) -> Iterator[None]:
        """Hold searches against the names that came, one search and change in each step."""
        while self._behind:
            self._take_change(next(iter(self._behind)))
            yield

    def _take_change(self, search: Search) -> None:
        changes = self._behind[search]
        added, deleted = changes.popleft()
        if not changes:
            del self._behind[search]
        found = frozenset(filter(self._finders[search].finds, added))
        self._found[search] = (self._found[search] - deleted) | found

    def by_rights(self) -> list[Search]:
        """Those that find other topics when rights change."""
        return [search for search in self._finders if search.viewer is not None]

    def search_again(self, search: Search) -> Generator[None, None, bool]:
        """By the rights as they are now, one name in each step. Returns whether other topics than
        before are found; until then those from before are."""
        finder = self._finders.get(search)
        if finder is None:
            return False
        found = yield from self._find_stepwise(finder)
        if search not in self._finders:
            return False
        before, self._found[search] = self._found[search], found
        self._behind.pop(search, None)
        return found != before

    def keep_only(self, searches: Iterable[Search]) -> None:
        """Forget searches that no group uses any more."""
        for search in self._finders.keys() - self._ready.keys() - set(searches):
            self._forget(search)

    def _forget(self, search: Search) -> None:
        self._ready.pop(search, None)
        self._behind.pop(search, None)
        del self._finders[search], self._found[search]
