"""How far a replay has come, on disk, so that it goes on where it was ended."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goqueue.client.group_facts import PartitionKey
from goqueue.model.errors import InvalidRequest
from goqueue.spark.pipelines.replay_records import Ranges
from goqueue.spark.source.stream_planning import limited


class ReplayChanged(InvalidRequest):
    """The definition is not the one that was begun."""

    code = "replay_changed"


@dataclass(slots=True, kw_only=True)
class ReplayPlan:
    """A part is written down before it is sent: after a crash the same is tried again, under the
    same name, by which the broker knows whether it has it.
    """

    # What was asked for, to notice a change.
    request: dict[str, Any]
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    next_offsets: dict[PartitionKey, int]
    end_offsets: dict[PartitionKey, int]
    part_number: int = 0
    # The part that is being sent.
    pending: Ranges = field(default_factory=dict)
    sent: int = 0

    @property
    def left(self) -> int:
        """Offsets that were not yet looked at."""
        return sum(end - self.next_offsets[place] for place, end in self.end_offsets.items())

    @property
    def is_done(self) -> bool:
        return self.left == 0 and not self.pending

    def take_part(self, max_offsets: int) -> None:
        """Choose what to send next."""
        end = limited(self.next_offsets, self.end_offsets, max_offsets)
        self.pending = {
            place: (self.next_offsets[place], end[place])
            for place in end
            if end[place] > self.next_offsets[place]
        }

    def finish_part(self, sent: int) -> None:
        self.next_offsets |= {place: end for place, (_, end) in self.pending.items()}
        self.pending = {}
        self.part_number += 1
        self.sent += sent

    @classmethod
    def begin(cls, request: dict[str, Any], ranges: Ranges) -> "ReplayPlan":
        return cls(
            request=request,
            next_offsets={place: start for place, (start, _) in ranges.items()},
            end_offsets={place: end for place, (_, end) in ranges.items()},
        )

    def save(self, path: Path) -> None:
        draft = path.with_suffix(".draft")
        written = {
            "request": self.request,
            "id": self.id,
            "next": _listed(self.next_offsets),
            "end": _listed(self.end_offsets),
            "part": self.part_number,
            "pending": _listed(self.pending),
            "sent": self.sent,
        }
        draft.write_text(json.dumps(written, indent=2), encoding="utf-8")
        draft.replace(path)

    @classmethod
    def load(cls, path: Path, request: dict[str, Any]) -> "ReplayPlan | None":
        """What was begun and is not done; None to begin."""
        try:
            written = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        plan = cls(
            request=written["request"],
            id=written["id"],
            next_offsets={(topic, part): at for topic, part, at in written["next"]},
            end_offsets={(topic, part): at for topic, part, at in written["end"]},
            part_number=written["part"],
            pending={(topic, part): (at[0], at[1]) for topic, part, at in written["pending"]},
            sent=written["sent"],
        )
        if plan.is_done:
            return None
        if plan.request != request:
            raise ReplayChanged(
                f"the replay was begun with another definition, and {plan.left} records are left; "
                f"restore it to go on, or remove {path} to begin anew"
            )
        return plan


def _listed(by_place: Mapping[PartitionKey, object]) -> list[tuple[str, int, object]]:
    return [(topic, partition, value) for (topic, partition), value in sorted(by_place.items())]
