"""The members that live in this broker, as long as their sessions last."""

from collections.abc import Callable, Collection
from typing import Final, TypeVar

from goqueue.broker.hosted_clients.members.member import CooperativeHostedMember, HostedMember
from goqueue.model.errors import Overloaded
from goqueue.model.fairness.named_shares import NamedShares
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.rights import MemberRights

# Each takes a few KB with its positions. Far more than pollers can be served at once.
MEMBERS_MAX: Final = 10_000

H = TypeVar("H", bound=HostedMember)


class MemberRegister:
    """All of them, by group and member id."""

    __slots__ = ("_members", "_shares")

    def __init__(self, tenants: Callable[[], Collection[str]], *, is_secured: bool) -> None:
        self._members: dict[tuple[str, str], HostedMember] = {}
        self._shares = NamedShares(tenants, is_secured=is_secured)

    def get(self, group_id: str, member_id: str) -> HostedMember | None:
        return self._members.get((group_id, member_id))

    def find(self, group_id: str, member_id: str, kind: type[H]) -> H:
        member = self._members.get((group_id, member_id))
        if member is None:
            raise GroupRefused(GroupError.UNKNOWN_MEMBER_ID)
        if not isinstance(member, kind):
            raise GroupRefused(
                GroupError.INCONSISTENT_GROUP_PROTOCOL,
                f"member {member_id!r} joined with the other protocol; use the paths "
                + ("without" if kind is CooperativeHostedMember else "with")
                + " /cooperative",
            )
        return member

    def make_room(self, rights: MemberRights, now_ms: int) -> None:
        """For a new member. Forget who has not been seen for a session; refuse when all have."""
        refusal = self._refusal(rights, now_ms)
        if refusal is None:
            return
        gone = [
            key
            for key, member in self._members.items()
            if now_ms - member.seen_ms > member.session_timeout_ms
        ]
        for key in gone:
            del self._members[key]
        if gone:
            self._shares.count_again()
            refusal = self._refusal(rights, now_ms)
            if refusal is None:
                return
        raise Overloaded(
            f"{len(self._members)} members live in this broker; there can be {MEMBERS_MAX}{refusal}"
        )

    def _refusal(self, rights: MemberRights, now_ms: int) -> str | None:
        return self._shares.refusal(
            rights.group,
            MEMBERS_MAX,
            len(self._members),
            lambda: ((group, 1) for group, _ in self._members),
            now_ms,
            administers_cluster=rights.administers_cluster,
        )

    def touch(self, member: HostedMember, now_ms: int) -> None:
        member.seen_ms = now_ms
        self._members[member.group_id, member.member_id] = member

    def forget(self, is_gone: Callable[[str], bool]) -> None:
        """All members of these groups."""
        self._members = {key: each for key, each in self._members.items() if not is_gone(key[0])}

    def drop(self, member: HostedMember) -> None:
        self._members.pop((member.group_id, member.member_id), None)
