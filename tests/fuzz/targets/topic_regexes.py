"""The pattern of a subscription, and names of topics: lines of an input, the pattern first."""

from typing import Final

from goqueue.state.groups.topic_regex import InvalidRegex, RegexCache, Search, TopicRegex
from tests.fuzz.target import Finding, Target, Verdict

_NAMES: Final = frozenset({"orders", "orders-eu", "a" * 249, "payments.v1", "_x"})


def run(data: bytes) -> Verdict:
    pattern, *lines = data.decode("utf-8", "surrogateescape").split("\n")
    names = _NAMES | {line[:249] for line in lines if line.isascii()}
    known = RegexCache()
    known.set_names(names)
    try:
        known.check(Search(pattern))
        regex = TopicRegex(pattern)
        regex.check_work(sum(map(len, names)))
    except InvalidRegex as error:
        return str(error)
    found = known.topics(Search(pattern))
    if found != {name for name in names if regex.matches(name)}:
        raise Finding(f"{pattern!r} matches {found}, and other names one by one")
    known.set_names(_NAMES)
    if known.topics(Search(pattern)) != found & _NAMES:
        raise Finding(f"{pattern!r} matches names that are gone")
    return found


TARGET: Final = Target(
    name="topic_regexes",
    promise="a pattern is used within its bound of work or refused, and matches the same names "
    "one by one as together",
    run=run,
    # Ten million steps of RE2, the bound that a pattern has (STEPS_MAX), at its slowest.
    cpu_ms_max=600,
)
