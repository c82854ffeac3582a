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
from tests.sim.replication import broker, faults
from tests.sim.replication.broker import Broker, Replica
from tests.sim.replication.disk import SimLog
from tests.sim.replication.keys import node_key

Mutation = Callable[[pytest.MonkeyPatch], None]
MayJoin = Callable[[Member], bool]


def watermark_without_proposals(patch: pytest.MonkeyPatch) -> None:
    def advance(self: Leading) -> None:
        if self.may_commit:
            ends = map(self.end_of, self.state.in_sync)
            self.high_watermark = max(self.high_watermark, min(ends))

    patch.setattr(Leading, "_advance", advance)


def shrink_counts_before_its_answer(patch: pytest.MonkeyPatch) -> None:
    original = Leading.propose

    def propose(self: Leading, now_ms: int, may_join: MayJoin) -> Proposal | None:
        proposal = original(self, now_ms, may_join)
        if proposal is not None and proposal.joining is None:
            self.state = proposal.state
            self._advance()
        return proposal

    patch.setattr(Leading, "propose", propose)


def lost_answer_means_no(patch: pytest.MonkeyPatch) -> None:
    original = Leading.propose

    def propose(self: Leading, now_ms: int, may_join: MayJoin) -> Proposal | None:
        self.proposal = None
        return original(self, now_ms, may_join)

    patch.setattr(Leading, "propose", propose)


def lost_answer_means_yes(patch: pytest.MonkeyPatch) -> None:
    original = Leading.propose

    def propose(self: Leading, now_ms: int, may_join: MayJoin) -> Proposal | None:
        if self.proposal is not None:
            self.state = self.proposal.state
            self._advance()
        return original(self, now_ms, may_join)

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


def leaving_broker_joins_again(patch: pytest.MonkeyPatch) -> None:
    def staying(self: Broker, member: Member) -> int:
        record = self.image.get(node_key(member.node))
        return 0 if record is None else record.mod_revision

    patch.setattr(Broker, "staying", staying)


def leaving_leader_is_kept(patch: pytest.MonkeyPatch) -> None:
    original = elections._kept_or_handed_over

    def kept(state: PartitionState, present: Any, candidates: Any, dead: Any, leaving: Any) -> Any:
        return original(state, present, candidates, dead, set(leaving) - {state.leader})

    patch.setattr(elections, "_kept_or_handed_over", kept)


def leaving_leader_is_followed_by_anyone(patch: pytest.MonkeyPatch) -> None:
    """What it led is handed over to somebody who was not in sync."""

    original = elections._kept_or_handed_over

    def handed_over(
        state: PartitionState, present: Any, candidates: Any, dead: Any, leaving: Any
    ) -> Any:
        heirs = [member for member in candidates if member.node not in leaving]
        if state.leader in leaving and heirs:
            return elections.Election(in_sync.led_by(state, heirs[-1], present), (heirs[-1],))
        return original(state, present, candidates, dead, leaving)

    patch.setattr(elections, "_kept_or_handed_over", handed_over)


def failed_log_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker, "harmed", lambda identity: identity)


def failed_log_is_used_on(patch: pytest.MonkeyPatch) -> None:
    """It is asked for and counts for the high watermark, and nothing of it is on disk."""
    patch.setattr(Replica, "go_offline", lambda self: None)


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
    leaving_broker_joins_again,
    leaving_leader_is_kept,
    leaving_leader_is_followed_by_anyone,
    failed_log_is_not_noted,
    failed_log_is_used_on,
)

# Seeds of `World` that found them, of the first 3,000. When the world changes, search again:
# `python -m tests.sim.replication --mutants --seeds 3000`.
CAUGHT_BY: dict[str, tuple[int, ...]] = {
    "watermark_without_proposals": (423, 755, 1097),
    "shrink_counts_before_its_answer": (2, 3, 11),
    "lost_answer_means_no": (13, 423, 755),
    "lost_answer_means_yes": (2, 4, 6),
    "broker_epochs_are_not_compared": (541, 617, 1425),
    "unclean_broker_stays_eligible": (86, 93, 120),
    "empty_disk_stays_in_sync": (86, 116, 120),
    "lost_memory_is_ignored": (116, 120, 198),
    "eligible_survive_a_lower_minimum": (32, 43, 55),
    "eligible_survive_a_quorum": (12, 32, 43),
    "follower_cuts_at_the_watermark": (216, 401, 431),
    "follower_assigns_epochs": (0, 7, 12),
    "late_answer_is_appended": (335, 360, 582),
    "late_answer_cuts": (1, 13, 58),
    "new_leader_commits_its_log": (0, 111, 175),
    "commits_without_a_quorum": (0, 6, 17),
    "restarted_leader_keeps_its_epoch": (1, 4, 7),
    "one_doubtful_broker_is_enough": (27, 120, 134),
    "joins_before_it_caught_up": (76, 120, 391),
    "snapshot_survives_truncation": (127, 291, 368),
    "acts_on_what_is_not_committed": (0, 1, 2),
    "leaving_broker_joins_again": (847, 951, 1203),
    "leaving_leader_is_kept": (2, 30, 80),
    "leaving_leader_is_followed_by_anyone": (506, 823, 1141),
    "failed_log_is_not_noted": (766, 888, 1045),
    "failed_log_is_used_on": (175, 399, 1338),
}
