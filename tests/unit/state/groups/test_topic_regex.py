"""Regular expressions over topic names: right, and never slow."""

import re
from collections.abc import Generator
from itertools import islice, product
from time import process_time

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.groups.viewer import Viewer
from goqueue.model.security.tenants import inner_pattern
from goqueue.state.groups.topic_regex import (
    PATTERN_MAX_LENGTH,
    READY_MAX,
    InvalidRegex,
    RegexCache,
    Search,
    TopicRegex,
)

LONGEST_NAME = 249


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("orders", ["orders"], ["orders2", "my-orders", ""]),
        ("^orders-.*", ["orders-", "orders-eu"], ["orders", "old-orders-eu"]),
        ("(a|b)+c?", ["a", "abba", "abc"], ["c", "abcc", ""]),
        ("[a-c]{2,3}", ["ab", "abc"], ["a", "abca", "xyz"]),
        (r"\d+\.\w*", ["1.", "12.x_9"], ["a.b", "12"]),
        ("[^._]+", ["a-b"], ["a.b", "_"]),
        (r"a\.b", ["a.b"], ["axb"]),
        ("x*?y", ["y", "xxy"], ["x"]),
        ("(?:ab){0,2}", ["", "ab", "abab"], ["ababab", "a"]),
        ("a^b|b$c|$^", [""], ["ab", "bc"]),
        ("(a*)*b", ["b", "aab"], ["a"]),
        ("(?i)orders", ["Orders", "ORDERS"], ["order"]),
        (r"my\b.*", ["my-orders"], ["myorders"]),
        (".x", ["éx"], ["x"]),
    ],
)
def test_examples(pattern: str, matching: list[str], other: list[str]) -> None:
    regex = TopicRegex(pattern)
    assert [name for name in matching + other if regex.matches(name)] == matching


@pytest.mark.parametrize(
    "pattern", ["(", "*a", "[z-a]", r"(a)\1", "(?=a)b", "(?<!a)b", "(?>a)b", "\ud800"]
)
def test_what_re2_has_not_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegex):
        TopicRegex(pattern)


def test_long_and_exploding_patterns_are_refused() -> None:
    with pytest.raises(InvalidRegex, match="1000"):
        TopicRegex("a" * (PATTERN_MAX_LENGTH + 1))
    with pytest.raises(InvalidRegex, match="repetition"):
        TopicRegex("((a{100}){100}){100}")
    with pytest.raises(InvalidRegex):
        TopicRegex("(" * 900 + ")" * 100)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "a*a*a*a*a*a*a*a*b", "(.*)*x"])
def test_patterns_that_ruin_backtracking_are_quick(pattern: str) -> None:
    """With Python's `re` each of these would run until the universe ends."""
    assert not TopicRegex(pattern).matches("a" * LONGEST_NAME)


def test_a_pattern_that_makes_states_without_end_is_bounded() -> None:
    """A new state for each character: 64 bytes cost 0.1 s for each name once."""
    pattern = "(a|b)*a" + "(a|b)" * 9 + ".{20}"
    regex = TopicRegex(pattern)
    names = ["".join(two) * 20 for two in product("ab", repeat=12)][:1_000]
    started = process_time()
    for name in names:
        regex.matches(name)
    assert (process_time() - started) / len(names) < 0.02


def test_a_stored_pattern_that_re2_does_not_take_matches_nothing() -> None:
    cache = RegexCache()
    cache.set_names(frozenset({"aa"}))
    assert cache.topics(Search("a{1,2000}")) == frozenset()
    assert cache.topics(Search("(?=a)a*")) == frozenset()


def test_patterns_are_held_against_the_names_there_are() -> None:
    cache = RegexCache()
    costly = "(.{300}|.{200}).*a"
    cache.check(Search(costly))
    cache.set_names(frozenset(f"{number:0249}" for number in range(100)))
    with pytest.raises(InvalidRegex, match="make it simpler"):
        cache.check(Search(costly))
    cache.check(Search("orders-.*"))
    cache.set_names(frozenset())
    cache.check(Search(costly))


def test_a_pattern_is_held_against_names_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one step 10,000 names could take a tenth of a second."""
    cache = RegexCache()
    cache.set_names(frozenset(f"a{number}" for number in range(100)))
    steps = cache.match_stepwise(Search("a.*[05]"))
    for _ in range(50):
        next(steps)
    cache.set_names(frozenset(f"a{number}" for number in range(50, 150)))
    assert sum(1 for _ in steps) == 50
    monkeypatch.setattr(TopicRegex, "matches", None)
    assert cache.topics(Search("a.*[05]")) == {f"a{number}" for number in range(50, 150, 5)}
    assert not list(cache.match_stepwise(Search("a.*[05]")))


def test_patterns_that_nobody_asks_for_are_forgotten() -> None:
    cache = RegexCache()
    cache.set_names(frozenset({"a"}))
    for number in range(3 * READY_MAX):
        list(cache.match_stepwise(Search(f"a{{0,{number}}}")))
    cache.keep_only([])
    assert len(cache._finders) == len(cache._found) == READY_MAX
    assert cache.topics(Search("a{0,5}")) == {"a"}
    assert cache.topics(Search(f"a{{0,{3 * READY_MAX - 1}}}")) == {"a"}
    cache.keep_only([])
    assert len(cache._finders) == READY_MAX - 1


def test_a_pattern_that_is_refused_is_refused_before_the_first_step() -> None:
    with pytest.raises(InvalidRegex):
        next(RegexCache().match_stepwise(Search("(")))


Atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "-", "^", "$"])
Patterns = st.recursive(
    Atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}", "*?", "{0}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
    ),
    max_leaves=6,
)


@given(Patterns, st.lists(st.text("ab1-_.", max_size=5), max_size=8))
def test_it_agrees_with_re(pattern: str, names: list[str]) -> None:
    ours, theirs = TopicRegex(pattern), re.compile(pattern)
    for name in names:
        assert ours.matches(name) == (theirs.fullmatch(name) is not None), (pattern, name)


@given(
    st.lists(st.frozensets(st.sampled_from(["ab", "ba", "b", "c-1", "c-2"])), max_size=6),
    st.lists(st.sampled_from(["a.*", ".*b", "c-\\d", ".*"]), min_size=1, max_size=3),
)
def test_the_cache_follows_the_topics(changes: list[frozenset[str]], patterns: list[str]) -> None:
    cache = RegexCache()
    for names in changes:
        cache.set_names(names)
        for pattern in patterns:
            expected = {name for name in names if re.fullmatch(pattern, name)}
            assert cache.topics(Search(pattern)) == expected
    cache.keep_only([])
    assert cache.topics(Search(patterns[0])) == {
        name for name in (changes[-1] if changes else ()) if re.fullmatch(patterns[0], name)
    }


def test_new_names_are_held_against_one_pattern_in_a_step() -> None:
    """A new topic was held against all patterns in use in one step."""
    cache = RegexCache()
    patterns = [f"a.*{number}" for number in range(50)]
    for pattern in patterns:
        assert cache.topics(Search(pattern)) == frozenset()
    cache.set_names(frozenset({"a1", "a2", "b2"}))
    cache.set_names(frozenset({"a2", "a12"}))
    # Whoever asks gets the right answer before its turn.
    assert cache.topics(Search(patterns[2])) == {"a2", "a12"}
    assert sum(1 for _ in cache.catch_up()) == 2 * (len(patterns) - 1)
    assert cache.topics(Search(patterns[1])) == frozenset()
    assert cache.topics(Search("a.*12")) == {"a12"}
    assert not list(cache.catch_up())


@given(
    st.lists(
        st.one_of(
            st.frozensets(st.sampled_from(["ab", "ba", "b", "c-1", "c-2"])),
            st.sampled_from(["a.*", ".*b", "c-\\d", ".*"]),
            st.integers(0, 5),
        ),
        max_size=20,
    )
)
def test_what_is_matched_does_not_depend_on_when(script: list[frozenset[str] | str | int]) -> None:
    cache = RegexCache()
    names: frozenset[str] = frozenset()
    for step in script:
        match step:
            case frozenset():
                names = step
                cache.set_names(names)
            case str():
                for _ in cache.match_stepwise(Search(step)):
                    pass
                assert cache.topics(Search(step)) == {
                    name for name in names if re.fullmatch(step, name)
                }
            case int():
                list(islice(cache.catch_up(), step))


def test_patterns_are_kept_by_those_who_use_them_alone() -> None:
    """RE2's own list of the last 128 held a megabyte of states for each."""
    for number in range(10):
        assert TopicRegex(f"topic-{number}.*").matches(f"topic-{number}")
    assert re2._Regexp._make.cache_info().currsize == 0


def test_patterns_of_a_tenant_are_about_its_own_names() -> None:
    names = frozenset({"orders", "acme@orders", "acme@orders.dlq", "zeta@orders"})
    cache = RegexCache()
    cache.set_names(names)
    assert cache.topics(Search(inner_pattern("acme", "^orders.*$"))) == {
        "acme@orders",
        "acme@orders.dlq",
    }
    assert cache.topics(Search(inner_pattern("zeta", ".*"))) == {"zeta@orders"}
    assert cache.topics(Search(".*")) == {"orders"}
    assert cache.topics(Search("acme@.*")) == frozenset()
    cache.set_names(names | {"acme@orders-new", "orders-new"})
    assert "acme@orders-new" in cache.topics(Search(inner_pattern("acme", "^orders.*$")))
    assert cache.topics(Search(".*")) == {"orders", "orders-new"}


def test_nobody_without_a_tenant_writes_a_pattern_of_one() -> None:
    with pytest.raises(InvalidRegex):
        RegexCache().check(Search(inner_pattern("", "*acme@.*")))


def viewer(name: str) -> Viewer:
    return Viewer("User", name, "", "127.0.0.1")


def test_each_viewer_finds_what_it_may_see() -> None:
    seen = {"alice": {"ant", "bee"}, "bob": {"hen"}}
    cache = RegexCache(lambda who, name: name in seen[who.name])
    cache.set_names(frozenset({"ant", "bee", "hen"}))
    alice, bob = Search(".*e.*", viewer("alice")), Search(".*e.*", viewer("bob"))
    list(cache.match_stepwise(alice))
    assert cache.topics(alice) == {"bee"}
    assert cache.topics(bob) == {"hen"}
    assert cache.topics(Search(".*e.*")) == {"bee", "hen"}
    seen["alice"].add("eel")
    cache.set_names(frozenset({"ant", "bee", "hen", "eel"}))
    assert cache.topics(alice) == {"bee", "eel"}
    assert cache.topics(bob) == {"hen"}


def test_other_rights_count_once_they_were_looked_at_in_steps() -> None:
    seen = {f"a{number}" for number in range(100)}
    cache = RegexCache(lambda _, name: name in seen)
    cache.set_names(frozenset(seen))
    search = Search("a.*", viewer("alice"))
    assert len(cache.topics(search)) == 100
    assert cache.by_rights() == [search]
    seen -= {"a1", "a2"}
    steps = cache.search_again(search)
    next(steps)
    cache.set_names(frozenset(f"a{number}" for number in range(1, 101)))
    assert sum(1 for _ in steps) == 99
    assert cache.topics(search) == seen - {"a0"}


def test_a_search_tells_whether_it_finds_others_than_before() -> None:
    seen = {"ant"}
    cache = RegexCache(lambda _, name: name in seen)
    cache.set_names(frozenset({"ant", "bee"}))
    search = Search("...", viewer("alice"))
    cache.topics(search)
    assert not last(cache.search_again(search))
    seen.add("bee")
    assert last(cache.search_again(search))
    cache.keep_only([])
    assert not last(cache.search_again(search))


def last(steps: Generator[None, None, bool]) -> bool:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bool(end.value)
