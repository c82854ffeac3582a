"""Rules as the command line says them, and as the broker takes them."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

import typer

CLUSTER_NAME: Final = "kafka-cluster"


class Operation(StrEnum):
    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster_action"
    DESCRIBE_CONFIGS = "describe_configs"
    ALTER_CONFIGS = "alter_configs"
    IDEMPOTENT_WRITE = "idempotent_write"


class NamedThings(NamedTuple):
    """None: none of the kind is named."""

    topics: Sequence[str] | None
    groups: Sequence[str] | None
    transactional_ids: Sequence[str] | None
    subjects: Sequence[str] | None
    cluster: bool
    is_prefixed: bool = False

    def pairs(self) -> Iterator[tuple[str, str]]:
        for kind, names in (
            ("topic", self.topics),
            ("group", self.groups),
            ("transactional_id", self.transactional_ids),
            ("subject", self.subjects),
        ):
            for name in names or ():
                yield kind, name
        if self.cluster:
            yield "cluster", CLUSTER_NAME

    def pattern_of(self, kind: str, name: str) -> str:
        # There is one cluster, and * is no beginning of a name.
        return "prefixed" if self.is_prefixed and kind != "cluster" and name != "*" else "literal"

    def rule(self, kind: str, name: str, operation: Operation) -> dict[str, Any]:
        return {
            "resource": kind,
            "name": name,
            "pattern": self.pattern_of(kind, name),
            "operation": operation.value,
        }


def rules_for(things: NamedThings, operations: Sequence[Operation]) -> list[dict[str, Any]]:
    made = [things.rule(kind, name, each) for kind, name in things.pairs() for each in operations]
    if not made:
        raise typer.BadParameter(
            "say of what: --topic, --group, --transactional-id, --subject or --cluster"
        )
    return made


def role_rules(things: NamedThings, *, producer: bool, consumer: bool) -> list[dict[str, Any]]:
    """As Kafka's kafka-acls.sh makes them of the same words. Schemas are read and registered by
    rights of their own, where subjects are named."""
    if not things.topics:
        raise typer.BadParameter("--producer and --consumer need a --topic")
    if consumer and not things.groups:
        raise typer.BadParameter("--consumer needs a --group; '*' is any")
    if producer and not consumer and things.groups:
        raise typer.BadParameter("--group goes with --consumer")
    made: list[dict[str, Any]] = []
    for kind, name in things.pairs():
        for operation in _role_operations(kind, producer=producer, consumer=consumer):
            made.append(things.rule(kind, name, operation))
    return made


def _role_operations(kind: str, *, producer: bool, consumer: bool) -> list[Operation]:
    if kind == "topic":
        written = [Operation.WRITE, Operation.CREATE] if producer else []
        read = [Operation.READ] if consumer else []
        return [*read, *written, Operation.DESCRIBE]
    if kind == "group":
        return [Operation.READ]
    if kind == "transactional_id":
        return [Operation.WRITE, Operation.DESCRIBE] if producer else []
    if kind == "subject":
        return [Operation.READ, Operation.WRITE] if producer else [Operation.READ]
    return [Operation.IDEMPOTENT_WRITE] if producer else []


def full_principal(text: str) -> str:
    """`alice` is `User:alice`."""
    return text if ":" in text else f"User:{text}"
