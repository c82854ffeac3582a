"""Decisions by rules, held against a plain reading of all of them, while rules come and go."""

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.caller import Principal
from goqueue.model.rights import CLUSTER_NAME, Resource, Verb
from goqueue.model.security.rules import ANY, Pattern, Permission, Rule
from goqueue.state.security.decisions import Asked, Decisions

IMPLIED = {
    Verb.DESCRIBE: {Verb.READ, Verb.WRITE, Verb.DELETE, Verb.ALTER},
    Verb.DESCRIBE_CONFIGS: {Verb.ALTER_CONFIGS},
}
# Few letters, so that names are prefixes of each other.
NAMES = st.text("ab", min_size=1, max_size=4)
PEOPLE = st.sampled_from(["alice", "bob"])
HOSTS = st.sampled_from(["10.0.0.1", "10.0.0.2"])
TENANTS = st.sampled_from(["", "acme"])
KINDS = st.sampled_from([Resource.TOPIC, Resource.GROUP])
RULES = st.builds(
    Rule,
    resource=KINDS,
    name=NAMES | st.just(ANY),
    pattern=st.sampled_from(Pattern),
    principal=(PEOPLE | st.just(ANY)).map(lambda name: f"User:{name}"),
    host=HOSTS | st.just(ANY),
    verb=st.none() | st.sampled_from(Verb),
    permission=st.sampled_from(Permission),
    tenant=TENANTS,
)
ASKED = st.builds(Asked, st.builds(Principal, st.just("User"), PEOPLE, TENANTS), HOSTS)


def speaks_of(rule: Rule, asked: Asked, resource: Resource, name: str) -> bool:
    is_name = (
        name.startswith(rule.name) if rule.pattern is Pattern.PREFIXED else rule.name in (name, ANY)
    )
    return (
        rule.tenant == asked.principal.tenant
        and rule.resource is resource
        and is_name
        and rule.principal in (f"User:{asked.principal.name}", "User:*")
        and rule.host in (asked.host, ANY)
    )


def plainly(
    rules: Collection[Rule], asked: Asked, resource: Resource, name: str, verb: Verb
) -> bool:
    counting = [rule for rule in rules if speaks_of(rule, asked, resource, name)]
    if any(r.permission is Permission.DENY and r.verb in (None, verb) for r in counting):
        return False
    enough = {None, verb, *IMPLIED.get(verb, ())}
    return any(r.permission is Permission.ALLOW and r.verb in enough for r in counting)


@given(st.lists(RULES, max_size=12), st.data())
def test_as_all_rules_read_one_by_one(rules: list[Rule], data: st.DataObject) -> None:
    removed = set(data.draw(st.lists(st.sampled_from(rules)))) if rules else set()
    decisions = Decisions(rules)
    decisions.change((), removed)
    kept = set(rules) - removed
    for _ in range(5):
        asked, name = data.draw(ASKED), data.draw(NAMES)
        resource, verb = data.draw(KINDS), data.draw(st.sampled_from(Verb))
        assert decisions.allow(asked, resource, name, verb) == plainly(
            kept, asked, resource, name, verb
        )


@given(st.lists(RULES, max_size=12), ASKED)
def test_who_may_write_to_some_topic_may_write_idempotently(
    rules: list[Rule], asked: Asked
) -> None:
    """Each name that a rule has, and each that begins with it and is longer than all of them."""
    decisions = Decisions(rules)
    candidates = {
        rule.name for rule in rules if rule.name != ANY or rule.pattern is Pattern.PREFIXED
    }
    names = {name + end for name in {*candidates, "a"} for end in ("", "-other")} | {"zzzzzz"}
    # A literal allow of `*` is Kafka's short cut: not whether a prefix denies all that there is.
    writes_some = any(
        plainly(set(rules), asked, Resource.TOPIC, name, Verb.WRITE) for name in names
    )
    found = decisions.allow(asked, Resource.CLUSTER, CLUSTER_NAME, Verb.IDEMPOTENT_WRITE)
    assert found or not writes_some
    if found and not any(rule.name == ANY for rule in rules):
        assert writes_some


@given(st.lists(RULES, max_size=12))
def test_nothing_is_kept_of_rules_that_are_gone(rules: list[Rule]) -> None:
    decisions = Decisions(rules)
    decisions.change((), set(rules))
    assert not decisions._shelves
