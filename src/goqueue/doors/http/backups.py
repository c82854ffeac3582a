"""/backups: how far every log of a broker goes at one moment, for whoever copies them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import delete, post, put
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.whole_numbers import whole
from goqueue.model.backups import PAUSE_MAX_MS, TTL_MAX_MS, CutPartition
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

_TAGS: Final = ["Backups"]
_NEEDS: Final[Mapping[str, Any]] = {"needs": (Need(Resource.CLUSTER, Verb.ALTER),)}

BackupInPath = Annotated[
    str, PathParameter(max_length=64, description="The id that beginning it answered with.")
]
Node = Annotated[
    str | None,
    QueryParameter(
        # As text: an optional number would take `null`, and lose its limits in the document.
        pattern=r"^[0-9]{1,10}$",
        description="The number of the broker that is meant; the one that answers if left out. "
        "Needed where several answer at one address (`goqueue serve --workers`).",
    ),
]
TtlMs = Annotated[
    float,
    Meta(
        ge=1_000,
        le=TTL_MAX_MS,
        multiple_of=1,
        description="After so long the backup is over, unless it is renewed.",
    ),
]


class BeginBackup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    ttl_ms: TtlMs


class RenewBackup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    ttl_ms: TtlMs
    pause_transactions_ms: Annotated[
        Annotated[float, Meta(ge=0, le=PAUSE_MAX_MS, multiple_of=1)] | None,
        Meta(
            description="No transaction begins or ends here for so long, while the brokers of a "
            "cluster are asked for their cuts; 0 lets them go on."
        ),
    ] = None


class TakeCut(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    with_metadata: Annotated[
        bool, Meta(description="Also every key of the metadata store, which is the cluster's.")
    ]


class BegunBackup(msgspec.Struct, frozen=True):
    id: str


class CutLog(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    topic_id: str
    partition: int
    start: int
    end: Annotated[int, Meta(description="The first offset that is not part of the backup.")]
    size_bytes: int
    segment_bytes: int
    is_compacted: Annotated[bool, Meta(description="What is stored below `end` may change.")]


class CutAnswer(msgspec.Struct, frozen=True, rename="camel"):
    node_id: int
    cluster_id: str
    is_cluster: bool
    taken_at: Annotated[int, Meta(description="Milliseconds since 1970 (UTC).")]
    partitions: Annotated[list[CutLog], Meta(description="All that this broker leads.")]
    offline: Annotated[dict[str, str], Meta(description="Why partitions here are not served.")]
    metadata: dict[str, str] | None


@post(
    "/backups",
    tags=_TAGS,
    status_code=201,
    responses=errors(400, 403, 404, 409, 413, 415, 503),
    opt=_NEEDS,
)
async def begin_backup(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[BeginBackup],
    node: Node = None,
) -> BegunBackup:
    """Begin to copy a broker's logs: until the end no log is compacted there."""
    return BegunBackup(await service.backups.begin(caller, whole(data.ttl_ms), at=_number(node)))


@put(
    "/backups/{backup:str}",
    tags=_TAGS,
    status_code=204,
    responses=errors(400, 403, 404, 409, 413, 415, 503),
    opt=_NEEDS,
)
async def renew_backup(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    backup: BackupInPath,
    data: JSONBody[RenewBackup],
    node: Node = None,
) -> None:
    """Go on for a while longer."""
    await service.backups.renew(caller, backup, whole(data.ttl_ms), at=_number(node))
    if data.pause_transactions_ms is not None:
        pause_ms = whole(data.pause_transactions_ms)
        await service.backups.pause_transactions(caller, backup, pause_ms, at=_number(node))


@post(
    "/backups/{backup:str}/cut",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 404, 413, 415, 503),
    opt=_NEEDS,
)
async def take_cut(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    backup: BackupInPath,
    data: JSONBody[TakeCut],
    node: Node = None,
) -> CutAnswer:
    """How far the logs go that the broker leads, all at one moment."""
    cut = await service.backups.cut(
        caller, backup, with_metadata=data.with_metadata, at=_number(node)
    )
    return CutAnswer(
        node_id=cut.node_id,
        cluster_id=cut.cluster_id,
        is_cluster=cut.is_cluster,
        taken_at=cut.taken_at_ms,
        partitions=[_log(partition) for partition in cut.partitions],
        offline=cut.offline,
        metadata=cut.metadata,
    )


@delete("/backups/{backup:str}", tags=_TAGS, responses=errors(400, 403, 404, 503), opt=_NEEDS)
async def end_backup(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    backup: BackupInPath,
    node: Node = None,
) -> None:
    """All is copied: logs are compacted again."""
    await service.backups.end(caller, backup, at=_number(node))


def _log(cut: CutPartition) -> CutLog:
    return CutLog(
        topic=cut.topic,
        topic_id=str(cut.topic_id),
        partition=cut.partition,
        start=cut.start,
        end=cut.end,
        size_bytes=cut.size_bytes,
        segment_bytes=cut.segment_bytes,
        is_compacted=cut.is_compacted,
    )


def _number(node: str | None) -> int | None:
    return None if node is None else int(node)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (begin_backup, renew_backup, take_cut, end_backup)
