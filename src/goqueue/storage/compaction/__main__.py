"""The worker process: reads a plan from standard input, writes its answer to standard output."""

import os
import resource
import sys
import time
from typing import Final

import msgspec

from goqueue.storage.compaction.copying import DamagedSegment, compact
from goqueue.storage.compaction.plan import Answer, CompactionPlan, Failed
from goqueue.storage.disk import Disk

# The broker and whatever else runs on the machine come first.
NICENESS: Final = 15


class _Pace:
    """Sleeps when the copying is faster than allowed, and ends it when the broker is gone."""

    def __init__(self, bytes_per_second_max: int, broker_pid: int) -> None:
        self._bytes_per_second_max = bytes_per_second_max
        self._broker_pid = broker_pid
        self._started_at = time.monotonic()
        self._bytes = 0

    def __call__(self, size_bytes: int) -> None:
        if os.getppid() != self._broker_pid:
            raise SystemExit("the broker is gone")
        self._bytes += size_bytes
        due_at = self._started_at + self._bytes / self._bytes_per_second_max
        delay = due_at - time.monotonic()
        if delay > 0:
            time.sleep(delay)


def main() -> None:
    os.nice(NICENESS)
    plan = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=CompactionPlan)
    resource.setrlimit(resource.RLIMIT_AS, (plan.memory_max_bytes, plan.memory_max_bytes))
    answer: Answer
    try:
        answer = compact(plan, Disk(), _Pace(plan.bytes_per_second_max, int(sys.argv[1])))
    except DamagedSegment as error:
        answer = Failed(reason=error.message, is_lasting=True)
    except MemoryError:
        reason = f"it needs more than the {plan.memory_max_bytes} bytes of memory it may take"
        answer = Failed(reason=reason, is_lasting=True)
    except OSError as error:
        answer = Failed(reason=str(error))
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))


main()
