"""How a run stands, as its process writes it and everybody else reads it."""

import datetime
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class RunState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    # It failed, and begins again in a while.
    WAITING = "waiting"
    # Everything that was there when it began is done.
    FINISHED = "finished"
    # Somebody asked for it.
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        return self not in (RunState.STARTING, RunState.RUNNING, RunState.WAITING)


@dataclass(slots=True, kw_only=True)
class RunStatus:
    name: str
    kind: str
    state: RunState
    pid: int
    definition: str
    master: str
    started_at: str
    host: str = field(default_factory=socket.gethostname)
    # How often it was begun again after a failure, by `run --restart`, and when next.
    restarts: int = 0
    next_start_at: str | None = None
    # When it last did all there was, or was stopped; kept over runs.
    succeeded_at: str | None = None
    updated_at: str = ""
    ended_at: str | None = None
    error: str | None = None
    # By the query's name, as `Progress.to_json` writes it.
    progress: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "state": str(self.state),
            "pid": self.pid,
            "definition": self.definition,
            "master": self.master,
            "startedAt": self.started_at,
            "host": self.host,
            "restarts": self.restarts,
            "nextStartAt": self.next_start_at,
            "succeededAt": self.succeeded_at,
            "updatedAt": self.updated_at,
            "endedAt": self.ended_at,
            "error": self.error,
            "progress": self.progress,
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> "RunStatus":
        return cls(
            name=written["name"],
            kind=written["kind"],
            state=RunState(written["state"]),
            pid=int(written["pid"]),
            definition=written["definition"],
            master=written["master"],
            started_at=written["startedAt"],
            # Runs of earlier versions did not note these.
            host=written.get("host", ""),
            restarts=int(written.get("restarts", 0)),
            next_start_at=written.get("nextStartAt"),
            succeeded_at=written.get("succeededAt"),
            updated_at=written["updatedAt"],
            ended_at=written["endedAt"],
            error=written["error"],
            progress=dict(written["progress"]),
        )


def now_text(*, in_seconds: float = 0) -> str:
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=in_seconds)
    return moment.isoformat(timespec="seconds")
