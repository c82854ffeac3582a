"""Faults that somebody could build into the machines one day. The simulation must find each."""

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from goqueue.model.replication import Member, PartitionState
from goqueue.state.controller import elections, planning
from goqueue.state.membership import identity
from goqueue.state.membership.identity import Continuity
from goqueue.state.replication import in_sync
from goqueue.state.replication.following import Following, Ignore, Records
from goqueue.state.replication.leading import FetchVerdict, Leading, Proposal
from tests.sim.replication import faults
from tests.sim.replication.broker import Broker, Replica
from tests.sim.replication.disk import SimLog

Mutation = Callable[[pytest.MonkeyPatch], None]


def watermark_without_proposals(patch: pytest.MonkeyPatch) -> None:
    def advance(self: Leading) -> None:
        if self.may_commit:
            ends = map(self.end_of, self.state.in_sync)
            self.high_watermark = max(self.high_watermark, min(ends))

    patch.setattr(Leading, "_advance", advance)


def shrink_counts_before_its_answer(patch: pytest.MonkeyPatch) -> None:
    original = Leading.propose

    def propose(self: Leading, now_ms: int) -> Proposal | None:
        proposal = original(self, now_ms)
        if proposal is not None and proposal.joining is None:
            self.state = proposal.state
            self._advance()
        return proposal

    patch.setattr(Leading, "propose", propose)


def lost_answer_means_no(patch: pytest.MonkeyPatch) -> None:
    original = Leading.propose

    def propose(self: Leading, now_ms: int) -> Proposal | None:
        self.proposal = None
        return original(self, now_ms)

    patch.setattr(Leading, "propose", propose)


def lost_answer_means_yes(patch: pytest.MonkeyPatch) -> None:
    original = Leading.propose

    def propose(self: Leading, now_ms: int) -> Proposal | None:
        if self.proposal is not None:
            self.state = self.proposal.state
            self._advance()
        return original(self, now_ms)

    patch.setattr(Leading, "propose", propose)


def broker_epochs_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """A restarted broker counts as the one before it: at the leader, in the store, when elected."""

    def gone(state: PartitionState, present: Any) -> set[Any]:
        return {member.node for member in state.in_sync if member.node not in present}

    original = elections.elect

    def elect(state: PartitionState, present: Any, *others: Any) -> Any:
        renewed = msgspec.structs.replace(
            state,
            in_sync=tuple(
                Member(m.node, present.get(m.node, m.broker_epoch)) for m in state.in_sync
            ),
        )
        return original(renewed, present, *others)

    _fetched = Leading.fetched

    def fetched(self: Leading, follower: Member, offset: int, now_ms: int) -> FetchVerdict:
        if (progress := self._progress.get(follower.node)) is not None:
            progress.broker_epoch = follower.broker_epoch
        return _fetched(self, follower, offset, now_ms)

    _propose = Broker._propose

    def propose(self: Broker, replica: Replica, leading: Leading, proposal: Proposal) -> None:
        _propose(self, replica, leading, dataclasses.replace(proposal, joining=None))

    patch.setattr(Leading, "fetched", fetched)
    patch.setattr(planning, "elect", elect)
    patch.setattr(in_sync, "gone", gone)
    patch.setattr(Broker, "_propose", propose)


def unclean_broker_stays_eligible(patch: pytest.MonkeyPatch) -> None:
    original = in_sync.forgotten

    def forgotten(state: PartitionState, node: int) -> PartitionState:
        kept = original(state, node)  # type: ignore[arg-type]
        return msgspec.structs.replace(kept, eligible=state.eligible)

    def corrected(
        state: PartitionState, node: Any, broker_epoch: int, worth: Continuity
    ) -> PartitionState:
        if worth is Continuity.KEPT or (worth is Continuity.ON_DISK and state.is_flushed):
            return in_sync.continued(state, Member(node, broker_epoch))
        renewed = in_sync._renewed(state.eligible, Member(node, broker_epoch))
        return msgspec.structs.replace(forgotten(state, node), eligible=renewed)

    patch.setattr(planning, "_corrected", corrected)


def empty_disk_stays_in_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planning, "continuity", lambda registered, known: Continuity.KEPT)


def lost_memory_is_ignored(patch: pytest.MonkeyPatch) -> None:
    original = identity.continuity

    def continuity(registered: Any, known: Any) -> Continuity:
        worth = original(registered, known)
        return Continuity.KEPT if worth is Continuity.ON_DISK else worth

    patch.setattr(planning, "continuity", continuity)


def eligible_survive_a_lower_minimum(patch: pytest.MonkeyPatch) -> None:
    def with_min_in_sync(state: PartitionState, min_in_sync: int) -> PartitionState:
        return msgspec.structs.replace(state, min_in_sync=min_in_sync)

    patch.setattr(faults, "with_min_in_sync", with_min_in_sync)


def eligible_survive_a_quorum(patch: pytest.MonkeyPatch) -> None:
    def settled(state: PartitionState, members: Any, eligible: Any) -> PartitionState:
        names = {member.node for member in members}
        kept = tuple(member for member in eligible if member.node not in names)
        return msgspec.structs.replace(state, in_sync=members, eligible=kept)

    patch.setattr(in_sync, "_settled", settled)


def follower_cuts_at_the_watermark(patch: pytest.MonkeyPatch) -> None:
    def learn(self: Broker, replica: Replica, state: PartitionState, revision: int) -> None:
        before = replica.following
        _learn(self, replica, state, revision)
        if replica.following is not None and replica.following is not before:
            replica.log.truncate(min(replica.log.end, replica.watermark))

    _learn = Broker.learn
    patch.setattr(Broker, "learn", learn)


def follower_assigns_epochs(patch: pytest.MonkeyPatch) -> None:
    _learn = Broker.learn

    def learn(self: Broker, replica: Replica, state: PartitionState, revision: int) -> None:
        _learn(self, replica, state, revision)
        if replica.following is not None:
            replica.log.assign(state.leader_epoch)

    patch.setattr(Broker, "learn", learn)


def late_answer_is_appended(patch: pytest.MonkeyPatch) -> None:
    original = Following.answered

    def answered(self: Following, question: Any, answer: Any, history: Any, log_end: int) -> Any:
        step = original(self, question, answer, history, log_end)
        if isinstance(step, Ignore) and isinstance(answer, Records) and question.offset == log_end:
            asked = self.question(history, log_end)
            return original(self, asked, answer, history, log_end)
        return step

    patch.setattr(Following, "answered", answered)


def late_answer_cuts(patch: pytest.MonkeyPatch) -> None:
    original = Following.answered

    def answered(self: Following, question: Any, answer: Any, history: Any, log_end: int) -> Any:
        if isinstance(answer, Records) or question.leader_epoch != self.leader_epoch:
            return original(self, question, answer, history, log_end)
        return original(self, self.question(history, log_end), answer, history, log_end)

    patch.setattr(Following, "answered", answered)


def new_leader_commits_its_log(patch: pytest.MonkeyPatch) -> None:
    original = Leading.__init__

    def init(self: Leading, *args: Any, **options: Any) -> None:
        original(self, *args, **{**options, "high_watermark": options["log_end"]})

    patch.setattr(Leading, "__init__", init)


def commits_without_a_quorum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leading, "may_commit", property(lambda self: True))


def restarted_leader_keeps_its_epoch(patch: pytest.MonkeyPatch) -> None:
    original = in_sync.led_by

    def led_by(state: PartitionState, leader: Member, present: Any) -> PartitionState:
        led = original(state, leader, present)
        if any(member.node == leader.node for member in state.in_sync):
            return msgspec.structs.replace(led, leader_epoch=max(state.leader_epoch, 1))
        return led

    patch.setattr(elections, "led_by", led_by)


def one_doubtful_broker_is_enough(patch: pytest.MonkeyPatch) -> None:
    original = elections._longest_log

    def longest_log(state: PartitionState, candidates: Any, log_ends: Any) -> Any:
        present = {member.node for member in candidates}
        there = tuple(node for node in state.doubtful if node in present)
        waived = msgspec.structs.replace(state, doubtful=there or state.doubtful)
        return original(waived, candidates, log_ends)

    patch.setattr(elections, "_longest_log", longest_log)


def snapshot_survives_truncation(patch: pytest.MonkeyPatch) -> None:
    original = SimLog.truncate

    def truncate(self: SimLog, end: int) -> None:
        kept = self.snapshot
        original(self, end)
        self.snapshot = kept

    patch.setattr(SimLog, "truncate", truncate)


def acts_on_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "safe_end", property(lambda self: self.log.end))


def joins_before_it_caught_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leading, "_joining_end", lambda self: 0)


MUTANTS: tuple[Mutation, ...] = (
    watermark_without_proposals,
    shrink_counts_before_its_answer,
    lost_answer_means_no,
    lost_answer_means_yes,
    broker_epochs_are_not_compared,
    unclean_broker_stays_eligible,
    empty_disk_stays_in_sync,
    lost_memory_is_ignored,
    eligible_survive_a_lower_minimum,
    eligible_survive_a_quorum,
    follower_cuts_at_the_watermark,
    follower_assigns_epochs,
    late_answer_is_appended,
    late_answer_cuts,
    new_leader_commits_its_log,
    commits_without_a_quorum,
    restarted_leader_keeps_its_epoch,
    one_doubtful_broker_is_enough,
    joins_before_it_caught_up,
    snapshot_survives_truncation,
    acts_on_what_is_not_committed,
)

# Seeds of `World` that found them, of the first 3,000. When the world changes, search again:
# `python -m tests.sim.replication --mutants --seeds 3000`.
CAUGHT_BY: dict[str, tuple[int, ...]] = {
    "watermark_without_proposals": (108, 109, 197),
    "shrink_counts_before_its_answer": (4, 8, 12),
    "lost_answer_means_no": (109, 246, 903),
    "lost_answer_means_yes": (4, 6, 9),
    "broker_epochs_are_not_compared": (115, 146, 244),
    "unclean_broker_stays_eligible": (80, 146, 197),
    "empty_disk_stays_in_sync": (50, 76, 80),
    "lost_memory_is_ignored": (76, 80, 125),
    "eligible_survive_a_lower_minimum": (614,),
    "eligible_survive_a_quorum": (0, 104, 198),
    "follower_cuts_at_the_watermark": (105, 137, 238),
    "follower_assigns_epochs": (4, 16, 17),
    "late_answer_is_appended": (27, 129, 279),
    "late_answer_cuts": (1301,),
    "new_leader_commits_its_log": (97, 105, 136),
    "commits_without_a_quorum": (9, 14, 17),
    "restarted_leader_keeps_its_epoch": (0, 1, 2),
    "one_doubtful_broker_is_enough": (80, 146, 148),
    "joins_before_it_caught_up": (17, 182, 221),
    "snapshot_survives_truncation": (287, 855, 927),
    "acts_on_what_is_not_committed": (0, 1, 2),
}
