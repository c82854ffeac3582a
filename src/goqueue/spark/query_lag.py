"""Shows in GoQueue how far Spark's queries have come: `goqueue groups describe spark-<query>`.

Spark keeps a query's offsets in its checkpoint; what is committed here is for people to see, and
no query starts from it.
"""

import json
import logging
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from goqueue.client.offset_commits import commit_offsets
from goqueue.client.profiles import ProfilesFile, security_at
from goqueue.model.client_security import ClientSecurity
from goqueue.model.errors import GoQueueError
from goqueue.spark.source.stream_offsets import StreamOffsets

log = logging.getLogger(__name__)


class LagPublisher(StreamingQueryListener):
    """Commits each batch's end to the group named by the option group.id, or after the query."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: ARG002, N802
        return

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: ARG002, N802
        return

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: ARG002, N802
        return

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        for source in progress.sources:
            where = _parsed(source.latestOffset)
            servers = where.get("bootstrap.servers")
            if servers is None:  # not a source of GoQueue
                continue
            prefix = where.get("groupIdPrefix", "spark")
            group = where.get("group.id") or f"{prefix}-{progress.name or progress.id}"
            reached = StreamOffsets.from_json(_parsed(source.endOffset))
            if not reached.next_offsets:
                continue
            try:
                security = _security(servers, where.get("profile"))
                commit_offsets(servers, group, reached.next_offsets, security)
            except GoQueueError as error:
                log.warning("lag of group %s is not up to date: %s", group, error)


def _security(servers: str, profile: str | None) -> ClientSecurity:
    """Passwords do not travel in a query's progress: those of a profile are found by its name."""
    if profile:
        return ProfilesFile().find(profile).client_security()
    return security_at(servers)


def _parsed(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
