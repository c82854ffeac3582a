"""Turns a transcript's commands into requests and what comes of them into lines."""

import shlex
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial

import msgspec

from goqueue.model.groups.assignment import Assignment, assignment
from goqueue.model.groups.consumer_protocol import (
    PROTOCOL_TYPE,
    MalformedProtocol,
    read_assignment,
    write_assignment,
    write_subscription,
)
from goqueue.model.groups.messages import (
    Client,
    CompleteTransaction,
    ConsumerGroupHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    MemberProtocol,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    SyncGroup,
    SyncGroupResult,
    TxnOffsetCommit,
)
from goqueue.model.groups.share_messages import ShareGroupHeartbeat
from goqueue.model.groups.viewer import Viewer
from goqueue.state.groups.settings import GroupOverrides, GroupSettings, MigrationPolicy
from goqueue.state.machine import Outcome, Reply
from tests.unit.state.groups.group_world import GroupWorld, topic_id, topic_name, topics

Args = Mapping[str, str]


class Script:
    def __init__(self) -> None:
        self.world = GroupWorld(GroupSettings(initial_rebalance_delay_ms=100))
        self._names: dict[int, str] = {}

    def run(self, line: str) -> list[str]:
        """One command, and the lines that it brings forth."""
        words = shlex.split(line)
        args = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        plain = [word for word in words[1:] if "=" not in word]
        world, before = self.world, len(self.world.log)
        lines = self._run(words[0], plain, args)
        added = len(self.world.log) - before if self.world is world else 0
        return [*lines, f"  {added} records"] if added else lines

    def _run(self, word: str, plain: list[str], args: Args) -> list[str]:
        world = self.world
        if word == "topics":
            world.set_topics(topics(**{name: int(count) for name, count in args.items()}))
            return []
        if word == "rights":
            for user, seen in args.items():
                world.set_rights(user, _names(seen) or ())
            return []
        if word == "settings":
            changes: dict[str, object] = {k: int(v) for k, v in args.items() if k != "policy"}
            changes.setdefault("initial_rebalance_delay_ms", 100)
            if "policy" in args:
                changes["migration_policy"] = MigrationPolicy(args["policy"])
            self.world = GroupWorld(GroupSettings(**changes), world.known)  # type: ignore[arg-type]
            return []
        if word == "override":
            own = {k: int(v) for k, v in args.items()}
            world.machine.on_group_settings_changed({plain[0]: GroupOverrides(**own)})
            return []
        if word == "wait":
            start_ms = world.now_ms
            found = world.advance(int(plain[0]))
            return [self._answer(r, f"+{at_ms - start_ms} ms ") for at_ms, r in found]
        if word == "crash":
            world.crash()
            return []
        world.tickets += 1
        self._names[world.tickets] = plain[0] if plain else word
        replies = world.take(self._command(word, args, world.tickets))
        lines = [self._answer(reply, "") for reply in replies]
        if world.tickets not in {reply.ticket for reply in replies}:
            lines.append("  parked")
        return lines

    def _answer(self, reply: Reply, prefix: str) -> str:
        return f"  {prefix}{self._names[reply.ticket]}: {shown(reply.response)}"

    def _command(self, word: str, args: Args, ticket: int) -> Outcome:
        machine, now_ms = self.world.machine, self.world.now_ms
        timed: dict[str, Callable[..., Outcome]] = {
            "join": machine.join,
            "sync": machine.sync,
            "heartbeat": machine.heartbeat,
            "leave": machine.leave,
            "consumer": machine.consumer_heartbeat,
            "commit": machine.commit_offsets,
            "txn-commit": machine.commit_offsets_in_transaction,
            "share": machine.share_heartbeat,
        }
        untimed: dict[str, Callable[..., Outcome]] = {
            "complete": machine.complete_transaction,
            "fetch": machine.fetch_offsets,
            "delete-offsets": machine.delete_offsets,
            "list": machine.list_groups,
            "describe": machine.describe_group,
            "describe-consumer": machine.describe_consumer_group,
            "delete": machine.delete_group,
            "describe-share": machine.describe_share_group,
            "open-share": partial(machine.open_empty_share_group, may_make=True),
            "find-share": partial(machine.open_empty_share_group, may_make=False),
        }
        request = REQUESTS[word](args)
        if word in timed:
            return timed[word](request, ticket=ticket, now_ms=now_ms)
        return untimed[word](request, ticket=ticket)


# --- requests -----------------------------------------------------------------------------


def _client(args: Args) -> Client:
    viewer = Viewer("User", args["user"], "", "127.0.0.1") if "user" in args else None
    return Client(client_id=args.get("client", "c"), host="/127.0.0.1", viewer=viewer)


def _join(args: Args) -> object:
    version = int(args.get("version", "9"))
    metadata = write_subscription(
        int(args.get("sub", "1")),
        _names(args.get("topics", "a")) or (),
        _by_name(args.get("owned", "")),
    )
    if "metadata" in args:
        metadata = args["metadata"].encode()
    return JoinGroup(
        group_id=args.get("group", "g"),
        session_timeout_ms=int(args.get("session", "10000")),
        rebalance_timeout_ms=int(args.get("rebalance", "30000")),
        member_id=args.get("member", ""),
        group_instance_id=args.get("instance"),
        protocol_type=args.get("type", PROTOCOL_TYPE),
        protocols=tuple(
            MemberProtocol(name=name, metadata=metadata)
            for name in _names(args.get("protocols", "range")) or ()
        ),
        client=_client(args),
        requires_known_member_id=version >= 4,
        supports_skipping_assignment=version >= 9,
    )


def _sync(args: Args) -> object:
    given = dict(part.split(":") for part in args.get("assign", "").split(";") if part)
    return SyncGroup(
        group_id=args.get("group", "g"),
        generation_id=int(args["generation"]),
        member_id=args["member"],
        group_instance_id=args.get("instance"),
        protocol_type=args.get("type"),
        protocol_name=args.get("protocol"),
        assignments={m: write_assignment(0, _by_name(p)) for m, p in given.items()},
    )


def _heartbeat(args: Args) -> object:
    return Heartbeat(
        group_id=args.get("group", "g"),
        generation_id=int(args["generation"]),
        member_id=args["member"],
        group_instance_id=args.get("instance"),
    )


def _leave(args: Args) -> object:
    members = args.get("members", "").split(",")
    instances = args.get("instances", "").split(",")
    leaving = [LeavingMember(member_id=m) for m in members if m]
    leaving += [LeavingMember(group_instance_id=i) for i in instances if i]
    return LeaveGroup(group_id=args.get("group", "g"), members=tuple(leaving))


def _consumer(args: Args) -> object:
    joining = args["epoch"] == "0"
    owned = args.get("owned", "-" if joining else None)
    return ConsumerGroupHeartbeat(
        group_id=args.get("group", "g"),
        member_id=args["member"],
        member_epoch=int(args["epoch"]),
        instance_id=args.get("instance"),
        rebalance_timeout_ms=int(args.get("rebalance", "60000" if joining else "-1")),
        subscribed_topics=_names(args.get("topics")),
        subscribed_regex=args.get("regex"),
        server_assignor=args.get("assignor"),
        owned=None if owned is None else _assignment(owned),
        client=_client(args),
    )


def _share(args: Args) -> object:
    return ShareGroupHeartbeat(
        group_id=args.get("group", "g"),
        member_id=args["member"],
        member_epoch=int(args["epoch"]),
        rack_id=args.get("rack"),
        subscribed_topics=_names(args.get("topics")),
        client=_client(args),
    )


def _offsets(args: Args) -> tuple[OffsetToCommit, ...]:
    wanted = []
    for part in args["offsets"].split(","):
        place, offset = part.split("@")
        wanted.append(
            OffsetToCommit(
                topic=place[0],
                partition=int(place[1:]),
                offset=int(offset),
                metadata="m" * int(args.get("note", "0")),
            )
        )
    return tuple(wanted)


def _commit(args: Args) -> object:
    return OffsetCommit(
        group_id=args.get("group", "g"),
        offsets=_offsets(args),
        generation_id=int(args.get("generation", "-1")),
        member_id=args.get("member", ""),
        group_instance_id=args.get("instance"),
        retention_ms=int(args.get("retention", "-1")),
        knows_member_epochs=args.get("version", "9") >= "9",
    )


def _txn_commit(args: Args) -> object:
    return TxnOffsetCommit(
        group_id=args.get("group", "g"),
        producer_id=int(args["producer"]),
        producer_epoch=int(args.get("epoch", "0")),
        offsets=_offsets(args),
        generation_id=int(args.get("generation", "-1")),
        member_id=args.get("member", ""),
        group_instance_id=args.get("instance"),
    )


def _complete(args: Args) -> object:
    return CompleteTransaction(
        producer_id=int(args["producer"]),
        producer_epoch=int(args.get("epoch", "0")),
        committed=args["end"] == "commit",
    )


def _fetch(args: Args) -> object:
    return OffsetFetch(
        group_id=args.get("group", "g"),
        topics=_by_name(args["partitions"]) if "partitions" in args else None,
        require_stable=args.get("stable") == "yes",
        member_id=args.get("member"),
        member_epoch=int(args.get("epoch", "-1")),
    )


def _delete_offsets(args: Args) -> object:
    return OffsetDelete(group_id=args.get("group", "g"), topics=_by_name(args["partitions"]))


def _list(args: Args) -> object:
    return ListGroups(
        states=frozenset(_names(args.get("states", "")) or ()),
        kinds=frozenset(_names(args.get("kinds", "")) or ()),
    )


REQUESTS: dict[str, Callable[[Args], object]] = {
    "join": _join,
    "sync": _sync,
    "heartbeat": _heartbeat,
    "leave": _leave,
    "consumer": _consumer,
    "commit": _commit,
    "txn-commit": _txn_commit,
    "complete": _complete,
    "fetch": _fetch,
    "delete-offsets": _delete_offsets,
    "list": _list,
    "describe": lambda args: args.get("group", "g"),
    "describe-consumer": lambda args: args.get("group", "g"),
    "delete": lambda args: args.get("group", "g"),
    "share": _share,
    "describe-share": lambda args: args.get("group", "g"),
    "open-share": lambda args: args.get("group", "g"),
    "find-share": lambda args: args.get("group", "g"),
}


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name for name in text.split(",") if name)


def _by_name(text: str) -> dict[str, tuple[int, ...]]:
    """`a0,a1,b2`, topics having one letter."""
    found: dict[str, tuple[int, ...]] = {}
    for part in text.split(","):
        if part and part != "-":
            found[part[0]] = (*found.get(part[0], ()), int(part[1:]))
    return found


def _assignment(text: str) -> Assignment:
    return assignment((topic_id(name), p) for name, p in _by_name(text).items())


# --- answers ------------------------------------------------------------------------------


def shown(response: object) -> str:
    """Everything of an answer that is not at its default, in the order of its fields."""
    if isinstance(response, tuple):
        return "[" + "; ".join(map(shown, response)) + "]"
    if not isinstance(response, msgspec.Struct):
        return str(response)
    parts = []
    for field in msgspec.structs.fields(response):
        value = getattr(response, field.name)
        if value == field.default or field.name in ("client", "heartbeat_interval_ms", "metadata"):
            continue
        if isinstance(response, SyncGroupResult) and field.name == "assignment":
            parts.append("assigned " + _embedded(value))
        else:
            parts.append(_part(field.name, value))
    return " ".join(parts) or "ok"


def _part(name: str, value: object) -> str:
    if isinstance(value, Enum):
        return value.name if name == "error" else f"{name}={value.value}"
    if isinstance(value, dict):
        places = [f"{topic_name(t)}{p}" for t, numbers in value.items() for p in numbers]
        return f"{name}=" + (",".join(sorted(places)) or "-")
    if isinstance(value, bytes):
        return f"{name}={_embedded(value)}"
    if isinstance(value, tuple):
        return f"{name}=" + ("(" + ")(".join(map(shown, value)) + ")" if value else "none")
    return f"{name}={value}"


def _embedded(value: bytes) -> str:
    try:
        found = read_assignment(value).partitions
    except MalformedProtocol:
        return "?"
    return ",".join(f"{t}{p}" for t, numbers in found.items() for p in numbers) or "-"
