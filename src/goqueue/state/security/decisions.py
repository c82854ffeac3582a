"""Decides by rules, as Kafka's authorizer does (KIP-11, KIP-290, KIP-679). Pure.

A deny wins over every allow; what no rule speaks of is denied. A verb may be allowed by one that
implies it, and is denied only by itself or by all. `*` as a literal name, as the name of a
principal and as a host stands for all.

Rules are found by what they speak of, so that a decision looks at a handful of places however many
there are: the name, `*`, and one prefix of the name for each length that some rule's prefix has.
Changes go in one by one. Threads may ask meanwhile: what is said at a place is replaced as a whole.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from goqueue.model.caller import Principal
from goqueue.model.rights import CLUSTER_NAME, Resource, Verb
from goqueue.model.security.rules import ANY, Pattern, Permission, Rule

# Bits are 1 << Kafka's number of the verb. Its number of "all":
_ALL: Final = 1 << 2
# Kafka's: who may do one of these may look.
IMPLIED_BY: Final[Mapping[Verb, tuple[Verb, ...]]] = {
    Verb.DESCRIBE: (Verb.READ, Verb.WRITE, Verb.DELETE, Verb.ALTER),
    Verb.DESCRIBE_CONFIGS: (Verb.ALTER_CONFIGS,),
}


# Remembered: a request may ask for twenty thousand decisions for the same caller.
WHOS_MAX: Final = 1_000


def _bit(verb: Verb | None) -> int:
    return _ALL if verb is None else 1 << verb.value


# By numbers, since Python computes the hash of an enum's member by a call of its own.
_DENYING: Final = {verb.value: _ALL | _bit(verb) for verb in Verb}
_ALLOWING: Final = {
    verb.value: _DENYING[verb.value] | sum(map(_bit, IMPLIED_BY.get(verb, ()))) for verb in Verb
}


class Asked(NamedTuple):
    """Who asks, and from where; rules of other tenants do not count."""

    principal: Principal
    host: str

    @property
    def whos(self) -> tuple["_Who", ...]:
        """How rules may speak of it."""
        return _whos(self)


@lru_cache(maxsize=WHOS_MAX)
def _whos(asked: Asked) -> tuple["_Who", ...]:
    own, everybody = str(asked.principal), f"{asked.principal.kind}:{ANY}"
    return (own, asked.host), (own, ANY), (everybody, asked.host), (everybody, ANY)


class _Said(NamedTuple):
    """Verbs of the rules of one principal and host about one name, as bits."""

    allowed: int = 0
    denied: int = 0


# How rules write the principal, and the host.
_Who = tuple[str, str]
_Place = dict[_Who, _Said]
_NOTHING: Final[_Place] = {}
_SILENT: Final = _Said()


class _Shelf:
    """The rules of one tenant about one kind of things."""

    __slots__ = ("_lengths", "_literal", "_of", "_places", "_prefix_lengths", "_prefixed")

    def __init__(self) -> None:
        self._literal: dict[str, _Place] = {}
        self._prefixed: dict[str, _Place] = {}
        self._places = {Pattern.LITERAL: self._literal, Pattern.PREFIXED: self._prefixed}
        # Of those that are prefixed: how many there are of each length, and which lengths.
        self._lengths: Counter[int] = Counter()
        self._prefix_lengths: tuple[int, ...] = ()
        # What is said of whom.
        self._of: dict[_Who, set[tuple[Pattern, str]]] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def places(self, name: str) -> list[_Place]:
        """Where something is said of the name."""
        found = [self._literal.get(name), self._literal.get(ANY)]
        for length in self._prefix_lengths:
            if length > len(name):
                break
            found.append(self._prefixed.get(name[:length]))
        return [place for place in found if place]

    def said_of(self, whos: Iterable[_Who]) -> Iterator[tuple[Pattern, str, _Said]]:
        for who in whos:
            # A copy, as rules may change while a thread asks.
            for pattern, name in tuple(self._of.get(who, ())):
                yield pattern, name, self._places[pattern].get(name, _NOTHING).get(who, _SILENT)

    def change(self, rule: Rule, *, is_there: bool) -> None:
        who, where = (rule.principal, rule.host), (rule.pattern, rule.name)
        places = self._places[rule.pattern]
        place = places.get(rule.name)
        if place is None:
            place = places[rule.name] = {}
            self._count_prefix(rule, 1)
        said = _changed(place.get(who, _SILENT), rule, is_there=is_there)
        if said != _SILENT:
            place[who] = said
            self._of.setdefault(who, set()).add(where)
            return
        place.pop(who, None)
        if not place:
            del places[rule.name]
            self._count_prefix(rule, -1)
        of = self._of.get(who, set())
        of.discard(where)
        if not of:
            self._of.pop(who, None)

    def _count_prefix(self, rule: Rule, more: int) -> None:
        if rule.pattern is Pattern.PREFIXED:
            self._lengths[len(rule.name)] += more
            lengths = {length for length, count in self._lengths.items() if count}
            if len(lengths) != len(self._prefix_lengths):
                self._prefix_lengths = tuple(sorted(lengths))


def _changed(said: _Said, rule: Rule, *, is_there: bool) -> _Said:
    allowed, denied, bit = said.allowed, said.denied, _bit(rule.verb)
    if rule.permission is Permission.ALLOW:
        return _Said(allowed | bit if is_there else allowed & ~bit, denied)
    return _Said(allowed, denied | bit if is_there else denied & ~bit)


class Decisions:
    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        # By the tenant, and the number of the kind of things.
        self._shelves: dict[tuple[str, int], _Shelf] = {}
        self.change(rules, ())

    def change(self, added: Iterable[Rule], removed: Iterable[Rule]) -> None:
        """Who asks from a thread meanwhile is allowed at most what both before and after allow."""
        added, removed = list(added), list(removed)
        self._put((each for each in added if each.permission is Permission.DENY), is_there=True)
        self._put((each for each in removed if each.permission is Permission.ALLOW), is_there=False)
        self._put((each for each in added if each.permission is Permission.ALLOW), is_there=True)
        self._put((each for each in removed if each.permission is Permission.DENY), is_there=False)

    def _put(self, rules: Iterable[Rule], *, is_there: bool) -> None:
        for rule in rules:
            kind = (rule.tenant, rule.resource.value)
            shelf = self._shelves.get(kind)
            if shelf is None:
                shelf = self._shelves[kind] = _Shelf()
            shelf.change(rule, is_there=is_there)
            if not shelf:
                del self._shelves[kind]

    def allow(self, asked: Asked, resource: Resource, name: str, verb: Verb) -> bool:
        """Also: who may write to some topic may write idempotently (KIP-679)."""
        if self._allow(asked, resource, name, verb):
            return True
        is_idempotence = verb is Verb.IDEMPOTENT_WRITE and (resource, name) == _CLUSTER
        return is_idempotence and self.allow_some(asked, Resource.TOPIC, Verb.WRITE)

    def _allow(self, asked: Asked, resource: Resource, name: str, verb: Verb) -> bool:
        shelf = self._shelves.get((asked.principal.tenant, resource._value_))
        if shelf is None:
            return False
        number, is_allowed = verb._value_, False
        denying, allowing = _DENYING[number], _ALLOWING[number]
        whos = asked.whos
        for place in shelf.places(name):
            for who in whos:
                said = place.get(who)
                if said is None:
                    continue
                if said.denied & denying:
                    return False
                is_allowed = is_allowed or bool(said.allowed & allowing)
        return is_allowed

    def allow_some(self, asked: Asked, resource: Resource, verb: Verb) -> bool:
        """Whether there can be a thing of this kind with which the caller may do this; Kafka's
        `authorizeByResourceType`. Takes as long as there are rules for this principal."""
        shelf = self._shelves.get((asked.principal.tenant, resource.value))
        if shelf is None:
            return False
        bits = _DENYING[verb.value]
        said = [each for each in shelf.said_of(asked.whos) if any(bits & each for each in each[2])]
        denied = {(pattern, name) for pattern, name, each in said if each.denied & bits}
        if _EVERYTHING in denied:
            return False
        prefixes = {name for pattern, name in denied if pattern is Pattern.PREFIXED}
        return any(
            (pattern, name) == _EVERYTHING
            or ((pattern, name) not in denied and not _has_prefix(name, prefixes))
            for pattern, name, each in said
            if each.allowed & bits
        )


_CLUSTER: Final = (Resource.CLUSTER, CLUSTER_NAME)
_EVERYTHING: Final = (Pattern.LITERAL, ANY)


def _has_prefix(name: str, prefixes: set[str]) -> bool:
    return bool(prefixes) and any(name[:end] in prefixes for end in range(1, len(name) + 1))
