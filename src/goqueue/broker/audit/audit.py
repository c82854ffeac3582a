"""The room of the audit: what is noted, where it goes, and what there was lately."""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from goqueue.broker.audit.line import AuditLine
from goqueue.broker.audit.topic import AuditTopic
from goqueue.broker.calls.calls import Calls
from goqueue.broker.publishing.publishing import Publishing
from goqueue.broker.topics.topics import TopicAdmin
from goqueue.model.audit import (
    LOG_IN,
    REFUSAL,
    AuditEntry,
    AuditFigures,
    AuditQuery,
    Change,
    FoundEntries,
    Outcome,
    Sameness,
    shortened,
)
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.calls import Method
from goqueue.model.fairness.parties import party_of
from goqueue.model.rights import DescribableCluster, Resource, Verb
from goqueue.model.security.audit_config import AS_SECURITY
from goqueue.state.audit.by_party import ByParty
from goqueue.state.audit.gathering import Gathered, Gathering
from goqueue.storage.rotated_lines import RotatedLines

logger = logging.getLogger(__name__)

FOLDER: Final = "audit"
# The newest, in memory: some 3 MB. The files and the topic have the others.
RECENT_MAX: Final = 5_000
# Read of the files at the start, to know what was before.
RELOADED_BYTES: Final = 2 * 1024 * 1024
# How often minutes that are over are looked for.
GATHER_INTERVAL_S: Final = 1.0
# Log lines about log-ins that failed, within a minute; the metric counts all of them.
FAILURE_LINES_MAX: Final = 30

_COUNTED_FROM_ZERO: Final = (
    (LOG_IN, Outcome.SUCCESS.value),
    (LOG_IN, Outcome.FAILURE.value),
    (REFUSAL, Outcome.REFUSED.value),
)

RECENT: Final = Method("audit.recent", AuditQuery, list[AuditEntry], is_repeatable=True)


class Audit:
    """While it is off, only log-ins that failed are counted and logged."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicAdmin,
        publishing: Publishing,
        calls: Calls,
        clock_ms: Callable[[], int],
    ) -> None:
        asked = config.audit_enabled
        self.is_on = config.security_enabled if asked == AS_SECURITY else asked == "true"
        self._node = config.node_id
        self._clock_ms = clock_ms
        self._calls = calls
        self._gathering = Gathering()
        # Rights are asked for in threads, too.
        self._lock = threading.Lock()
        self._recent: ByParty[AuditEntry] = ByParty()
        # These are there from the start: a rate needs a zero before the first.
        self._events: Counter[tuple[str, str]] = Counter(dict.fromkeys(_COUNTED_FROM_ZERO, 0))
        self._failed: Counter[str] = Counter({door.value: 0 for door in Door})
        self._lines_left = FAILURE_LINES_MAX
        self._lines_until_ms = 0
        self._files = RotatedLines(
            config.data_dir / FOLDER,
            "audit",
            max_bytes=config.audit_file_max_bytes,
            max_files=config.audit_file_max_files,
        )
        self._lines: list[AuditLine] = []
        if self.is_on and config.audit_file_enabled:
            self._lines.append(AuditLine("file", self._write_file))
        if self.is_on and config.audit_topic_enabled:
            topic = AuditTopic(topics, publishing, config.audit_topic_retention_ms)
            self._lines.append(AuditLine("topic", topic.write))
        self._gatherer: asyncio.Task[None] | None = None
        calls.serve(RECENT, self._recent_here)

    async def start(self) -> None:
        if not self.is_on:
            return
        if any(line.name == "file" for line in self._lines):
            await asyncio.to_thread(self._reload)
        for line in self._lines:
            line.start()
        self._gatherer = asyncio.create_task(self._gather_forever())

    async def close(self) -> None:
        """Everything that was noted is written, if that can be done within a second."""
        if self._gatherer is None:
            return
        self._gatherer.cancel()
        await asyncio.gather(self._gatherer, return_exceptions=True)
        self._gatherer = None
        with self._lock:
            rest = self._gathering.rest()
        for each in rest:
            self._tell(each)
        await asyncio.gather(*(line.close() for line in self._lines))
        await asyncio.to_thread(self._files.close)

    # --- noting (any thread) --------------------------------------------------------------

    def changed(self, change: Change) -> None:
        """Something was changed, or should have been."""
        caller = change.caller
        self._events[change.event, change.outcome.value] += 1
        self._add(
            AuditEntry(
                time_ms=self._clock_ms(),
                event=change.event,
                outcome=change.outcome,
                principal=str(caller.principal),
                tenant=caller.principal.tenant,
                door=caller.door.value,
                address=caller.address,
                client_id=shortened(caller.client_id),
                resource=change.resource,
                name=shortened(change.name),
                detail={key: shortened(value) for key, value in change.detail.items()},
                error=change.error,
                node=self._node,
            ),
            is_gathered=False,
        )

    def changed_often(self, change: Change) -> None:
        """As `changed`, of what programs do by themselves again and again."""
        caller = change.caller
        self._note(
            Sameness(
                change.event,
                change.outcome,
                caller.principal,
                caller.door,
                caller.address,
                change.resource,
                shortened(change.name),
                change.error,
            )
        )

    def refused(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> None:
        if self.is_on:
            word = verb.name.lower()
            kind = resource.name.lower()
            self._note(
                Sameness(
                    REFUSAL,
                    Outcome.REFUSED,
                    caller.principal,
                    caller.door,
                    caller.address,
                    kind,
                    shortened(name),
                    word,
                )
            )

    def logged_in(self, principal: Principal, door: Door, address: str, mechanism: str) -> None:
        if self.is_on:
            self._note(
                Sameness(LOG_IN, Outcome.SUCCESS, principal, door, address, "", "", mechanism)
            )

    def log_in_failed(self, principal: Principal, door: Door, address: str, mechanism: str) -> None:
        """`principal`: whom it named, if there is such a user; never what was shown as proof."""
        self._failed[door.value] += 1
        self._log_failure(principal, door, address, mechanism)
        if self.is_on:
            self._note(
                Sameness(LOG_IN, Outcome.FAILURE, principal, door, address, "", "", mechanism)
            )

    def _log_failure(self, principal: Principal, door: Door, address: str, mechanism: str) -> None:
        now_ms = self._clock_ms()
        if now_ms >= self._lines_until_ms:
            if self._lines_left < 0:
                logger.warning("%d more log-ins failed within a minute", -self._lines_left)
            self._lines_left, self._lines_until_ms = FAILURE_LINES_MAX, now_ms + 60_000
        self._lines_left -= 1
        if self._lines_left >= 0:
            logger.warning(
                "log-in failed at the %s door from %s as %s (%s)",
                door.value,
                address or "an unknown address",
                principal,
                mechanism,
            )

    # --- gathering ------------------------------------------------------------------------

    def _note(self, what: Sameness) -> None:
        self._events[what.event, what.outcome.value] += 1
        with self._lock:
            told = self._gathering.seen(what, self._clock_ms())
        if told is not None:
            self._tell(told)

    def _tell(self, told: Gathered) -> None:
        what = told.what
        is_log_in = what.event == LOG_IN
        detail = {"mechanism": what.verb} if is_log_in else {"verb": what.verb}
        is_change = what.event not in (LOG_IN, REFUSAL)
        self._add(
            AuditEntry(
                time_ms=told.last_ms,
                event=what.event,
                outcome=what.outcome,
                principal=str(what.principal),
                tenant=what.principal.tenant,
                door=what.door.value,
                address=what.address,
                resource=what.resource,
                name=what.name,
                detail={} if is_change else detail,
                error=what.verb if is_change else "",
                count=told.count,
                node=self._node,
            ),
            is_gathered=True,
        )

    async def _gather_forever(self) -> None:
        while True:
            await asyncio.sleep(GATHER_INTERVAL_S)
            with self._lock:
                due = self._gathering.due(self._clock_ms())
            for each in due:
                self._tell(each)

    def _add(self, entry: AuditEntry, *, is_gathered: bool) -> None:
        party = _party(entry)
        self._remember(party, entry)
        if self._lines:
            text = msgspec.json.encode(entry)
            for line in self._lines:
                line.offer(text, is_gathered=is_gathered, party=party)

    def _remember(self, party: str, entry: AuditEntry) -> None:
        """The newest, but none is pushed out by somebody who has more of them."""
        with self._lock:
            if len(self._recent) >= RECENT_MAX:
                self._recent.drop_first_of(self._recent.gives_way(party))
            self._recent.add(party, entry)

    # --- files ----------------------------------------------------------------------------

    async def _write_file(self, entries: Sequence[bytes]) -> None:
        await asyncio.to_thread(self._files.write, b"\n".join((*entries, b"")))

    def _reload(self) -> None:
        decoder = msgspec.json.Decoder(AuditEntry)
        for line in self._files.last_lines(RELOADED_BYTES):
            try:
                entry = decoder.decode(line)
            except msgspec.MsgspecError:
                # Cut off by a crash.
                continue
            self._remember(_party(entry), entry)

    # --- looking --------------------------------------------------------------------------

    async def recent(self, _cluster: DescribableCluster, query: AuditQuery) -> FoundEntries:
        """The newest of all brokers that match."""
        told = await self._calls.gather(RECENT, query)
        found = [entry for entries in told.answers.values() for entry in entries]
        found.sort(key=lambda entry: entry.time_ms, reverse=True)
        return FoundEntries(found[: query.limit], told.unanswered)

    async def _recent_here(self, query: AuditQuery) -> list[AuditEntry]:
        found: list[AuditEntry] = []
        with self._lock:
            newest_first = tuple(self._recent.newest_first())
        for entry in newest_first:
            if query.matches(entry):
                found.append(entry)
                if len(found) >= query.limit:
                    break
        return found

    def figures(self, _cluster: DescribableCluster) -> AuditFigures:
        return AuditFigures(
            dict(self._events),
            {line.name: line.dropped for line in self._lines},
            dict(self._failed),
        )


def _party(entry: AuditEntry) -> str:
    kind, _, name = entry.principal.partition(":")
    return party_of(Principal(kind, name, entry.tenant))
