"""The registry's worker process: parses and compares schemas, one job after the other.

It is bounded in memory, and killed by the broker when a job takes too long. It ends when its
standard input does.
"""

import ctypes
import os
import resource
import signal
import sys
from typing import BinaryIO, Final

from goqueue.broker.schemas.jobs import (
    JOB,
    SIZE_BYTES,
    Broken,
    Compared,
    CompareJob,
    Described,
    DescribeJob,
    Job,
    JobAnswer,
    Parsed,
    Refused,
    encode,
)
from goqueue.model.schemas.formats import Incompatibility, InvalidSchema, SchemaType
from goqueue.schema_formats.formats import incompatibilities, parse

# The libraries of all formats take some 300 MB of address space; a schema that needs ten times as
# much is meant to do harm.
MEMORY_MAX_BYTES: Final = 3 * 1024 * 1024 * 1024
# The broker comes first.
NICENESS: Final = 5
_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library prints must not get between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))
    _end_with(int(sys.argv[1]))
    while (message := _read(sys.stdin.buffer)) is not None:
        data = encode(carry_out(JOB.decode(message)))
        answers.write(len(data).to_bytes(SIZE_BYTES, "big") + data)
        answers.flush()


def carry_out(job: Job) -> JobAnswer:
    try:
        if isinstance(job, CompareJob):
            return _compare(job)
        if isinstance(job, DescribeJob):
            return _describe(job)
        return Parsed(parse(job.source, normalize=job.normalize))
    except InvalidSchema as error:
        return Refused(error.message)
    except RecursionError:
        return Refused("it is nested too deeply")
    except MemoryError:
        return Refused(f"it takes more than {MEMORY_MAX_BYTES} bytes of memory")
    except Exception as error:
        return Broken(f"{type(error).__name__}: {error}")


def _compare(job: CompareJob) -> Compared:
    for position, old in enumerate(job.olds):
        reasons: list[Incompatibility] = []
        if job.is_backward:
            reasons += incompatibilities(job.new, old)
        if job.is_forward:
            reasons += incompatibilities(old, job.new)
        if reasons:
            return Compared(position, reasons)
    return Compared(-1, [])


def _describe(job: DescribeJob) -> Described:
    # Imported here: a format's libraries are loaded when it is used first.
    if job.source.type is SchemaType.AVRO:
        from goqueue.schema_formats.avro import resolved

        return Described(resolved(job.source))
    from goqueue.schema_formats.protobuf import serialized

    return Described(serialized(job.source))


def _end_with(broker_pid: int) -> None:
    """A broker that is killed in the middle of a job leaves nobody who would end it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != broker_pid:
        raise SystemExit("the broker is gone")


def _read(jobs: BinaryIO) -> bytes | None:
    size = jobs.read(SIZE_BYTES)
    if len(size) < SIZE_BYTES:
        return None
    return jobs.read(int.from_bytes(size, "big"))


if __name__ == "__main__":
    main()
