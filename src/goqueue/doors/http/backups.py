"""/backups: how far every log of this broker goes at one moment, for whoever copies them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import delete, post, put
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.whole_numbers import whole
from goqueue.model.backups import CutPartition
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

_TAGS: Final = ["Backups"]
_NEEDS: Final[Mapping[str, Any]] = {"needs": (Need(Resource.CLUSTER, Verb.ALTER),)}
_TTL_MAX_MS: Final = 600_000
_PAUSE_MAX_MS: Final = 5_000

BackupInPath = Annotated[
    str, PathParameter(max_length=64, description="The id that beginning it answered with.")
]
TtlMs = Annotated[
    float,
    Meta(
        ge=1_000,
        le=_TTL_MAX_MS,
        multiple_of=1,
        description="After so long the backup is over, unless it is renewed.",
    ),
]


class BeginBackup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    ttl_ms: TtlMs


class RenewBackup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    ttl_ms: TtlMs
    pause_transactions_ms: Annotated[
        Annotated[float, Meta(ge=0, le=_PAUSE_MAX_MS, multiple_of=1)] | None,
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
    "/backups", tags=_TAGS, status_code=201, responses=errors(400, 403, 409, 413, 415), opt=_NEEDS
)
async def begin_backup(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[BeginBackup],
) -> BegunBackup:
    """Begin to copy this broker's logs: until the end no log is compacted."""
    return BegunBackup(service.backups.begin(caller, whole(data.ttl_ms)))


@put(
    "/backups/{backup:str}",
    tags=_TAGS,
    status_code=204,
    responses=errors(400, 403, 404, 409, 413, 415),
    opt=_NEEDS,
)
async def renew_backup(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    backup: BackupInPath,
    data: JSONBody[RenewBackup],
) -> None:
    """Go on for a while longer."""
    service.backups.renew(caller, backup, whole(data.ttl_ms))
    if data.pause_transactions_ms is not None:
        service.backups.pause_transactions(caller, backup, whole(data.pause_transactions_ms))


@post(
    "/backups/{backup:str}/cut",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 404, 413, 415),
    opt=_NEEDS,
)
async def take_cut(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    backup: BackupInPath,
    data: JSONBody[TakeCut],
) -> CutAnswer:
    """How far the logs go that this broker leads, all at one moment."""
    cut = await service.backups.cut(caller, backup, with_metadata=data.with_metadata)
    return CutAnswer(
        node_id=cut.node_id,
        cluster_id=cut.cluster_id,
        is_cluster=cut.is_cluster,
        taken_at=cut.taken_at_ms,
        partitions=[_log(partition) for partition in cut.partitions],
        offline=cut.offline,
        metadata=cut.metadata,
    )


@delete("/backups/{backup:str}", tags=_TAGS, responses=errors(400, 403, 404), opt=_NEEDS)
async def end_backup(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    backup: BackupInPath,
) -> None:
    """All is copied: logs are compacted again."""
    service.backups.end(caller, backup)


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


ROUTES: Final[Sequence[HTTPRouteHandler]] = (begin_backup, renew_backup, take_cut, end_backup)
