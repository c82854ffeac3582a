"""Watches the groups of a machine: every move from state to state must be in the tables."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from goqueue.model.groups.messages import GroupKind
from goqueue.state.groups.consumer_group import ConsumerGroup
from goqueue.state.groups.coordinator import GroupMachine
from goqueue.state.groups.share_group import ShareGroup
from goqueue.state.groups.states import (
    CONSUMER_MOVES,
    KIND_CHANGES,
    SHARE_MOVES,
    STREAMS_MOVES,
)
from goqueue.state.groups.streams.group import StreamsGroup

# From state to state, or from kind to kind.
Move = tuple[Enum, Enum]

# Classic groups check each of their steps by themselves; several may come in one command.
_MOVES: Final[Mapping[Any, Mapping[Any, str]]] = {**CONSUMER_MOVES, **SHARE_MOVES, **STREAMS_MOVES}


class GroupWatch:
    """`seen` is what happened so far."""

    def __init__(self) -> None:
        self.seen: set[Move] = set()
        self._kinds: dict[str, GroupKind] = {}
        self._states: dict[str, Enum] = {}

    def start(self, machine: GroupMachine) -> None:
        """A new machine has loaded its groups; what they were before does not count."""
        self._kinds, self._states = _kinds(machine), _states(machine)

    def look(self, machine: GroupMachine) -> None:
        """A command was carried out."""
        kinds, states = _kinds(machine), _states(machine)
        for group, kind in kinds.items():
            before = self._kinds.get(group, kind)
            if before is not kind:
                assert kind in KIND_CHANGES[before], f"{group}: {before} to {kind}"
                self.seen.add((before, kind))
        for group, state in states.items():
            was = self._states.get(group)
            if was is None or was is state or type(was) is not type(state):
                continue
            assert state in _MOVES[was], f"{group}: {was} to {state}"
            self.seen.add((was, state))
        self._kinds, self._states = kinds, states


def _kinds(machine: GroupMachine) -> dict[str, GroupKind]:
    return {group_id: group.kind for group_id, group in machine._registry.groups.items()}


def _states(machine: GroupMachine) -> dict[str, Enum]:
    return {
        group_id: group.state
        for group_id, group in machine._registry.groups.items()
        if isinstance(group, ConsumerGroup | ShareGroup | StreamsGroup)
    }
