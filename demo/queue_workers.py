"""Workers that read orders as a queue: what they understand they acknowledge, the rest fails."""

import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from goqueue.client.http_api import HttpApi

GROUP: Final = "packers"
# Few at a time, or the first workers would take what is urgent and what is not alike.
_BATCH: Final = 20
_WAIT_MS: Final = 500


@dataclass
class Shift:
    """What the workers did, in the order in which they did it."""

    priorities: list[int] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


def work(http_url: str, topic: str, shift: Shift, done: threading.Event) -> None:
    """Until `done`; several may work at once."""
    api = HttpApi(http_url)
    while not done.is_set():
        answer = api.get("groups", GROUP, "poll", topic=topic, max=_BATCH, timeout=_WAIT_MS)
        good = [each for each in answer["messages"] if _is_order(each)]
        bad = [each for each in answer["messages"] if not _is_order(each)]
        with shift.lock:
            shift.priorities += [each["priority"] for each in good]
            shift.counts["packed"] += len(good)
            shift.counts["failed deliveries"] += len(bad)
        for step, messages in (("ack", good), ("nack", bad)):
            if messages:
                receipts = [each["receipt"] for each in messages]
                api.post("messages", step, body={"group": GROUP, "receipts": receipts})


def _is_order(message: dict[str, Any]) -> bool:
    try:
        return "amount" in json.loads(message["value"])
    except ValueError:
        return False
