"""Rights of members on their way to another broker, also one of an earlier release."""

import msgspec

from goqueue.model.rights import MemberRights, PackedMemberRights
from goqueue.service.security.access import Access
from tests.callers import ANYONE


def on_the_way(data: object) -> MemberRights:
    return MemberRights.unpacked(msgspec.convert(data, PackedMemberRights))


def test_who_administers_the_cluster_is_told_on_the_way() -> None:
    group = Access().readable_group(ANYONE, "g")
    rights = MemberRights(group, {"a"}.__contains__, ["a", "b"], administers_cluster=True)
    there = on_the_way(rights.packed())
    assert there.administers_cluster
    assert there.topic("a") == "a"
    assert there.topic("b") is None


def test_others_are_told_as_brokers_of_earlier_releases_know_it() -> None:
    rights = Access().member_rights(ANYONE, "g", ["a"])
    assert rights.packed() == ["g", None]
    there = on_the_way(["g", None])
    assert not there.administers_cluster
    assert there.topic("a") == "a"
    assert there.topic("__audit") is None
