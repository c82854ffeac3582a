"""A process that looks at schemas: parses and compares them, and checks payloads against them.

It carries out one job after the other, is bounded in memory, and is killed by the broker when a job
takes too long. It ends when its standard input does.
"""

import ctypes
import gc
import os
import resource
import signal
import sys
from collections import OrderedDict
from time import monotonic, process_time
from typing import BinaryIO, Final

from goqueue.broker.schemas.jobs import (
    JOB,
    READY,
    SIZE_BYTES,
    Assessed,
    AssessJob,
    Broken,
    Checked,
    CheckJob,
    Compared,
    CompareJob,
    Described,
    DescribeJob,
    Job,
    JobAnswer,
    Loaded,
    LoadJob,
    NotLoaded,
    Parsed,
    Refused,
    encode,
)
from goqueue.model.schemas.formats import (
    Incompatibility,
    InvalidContent,
    InvalidSchema,
    SchemaType,
    Validator,
)
from goqueue.schema_formats.formats import bound_of_work, incompatibilities, make_validator, parse

# Compiled schemas; the one that was used longest ago goes first, and is sent again when needed.
LOADED_MAX: Final = 64
# Schemas and payloads of which so much is made that it is worth giving it back to the system.
LARGE_JOB_BYTES: Final = 64 * 1024
# It takes some 30 ms, for which the next job waits.
TRIM_EVERY_SECONDS: Final = 1.0
# The broker comes first.
NICENESS: Final = 5
_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library prints must not get between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.nice(NICENESS)
    broker_pid, memory_max_bytes = map(int, sys.argv[1:3])
    resource.setrlimit(resource.RLIMIT_AS, (memory_max_bytes, memory_max_bytes))
    # Ends the process wherever it is, also in a library that never looks up.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    _end_with(broker_pid)
    answers.write(READY)
    answers.flush()
    trimmed_at = monotonic()
    while (message := _read(sys.stdin.buffer)) is not None:
        data = encode(carry_out(JOB.decode(message), memory_max_bytes))
        answers.write(len(data).to_bytes(SIZE_BYTES, "big") + data)
        answers.flush()
        if len(message) >= LARGE_JOB_BYTES and monotonic() > trimmed_at + TRIM_EVERY_SECONDS:
            del message, data
            _give_back_memory()
            trimmed_at = monotonic()


def carry_out(job: Job, memory_max_bytes: int) -> JobAnswer:
    try:
        return _carry_out(job)
    except InvalidSchema as error:
        return Refused(error.message)
    except RecursionError:
        return Refused("it is nested too deeply")
    except MemoryError:
        return Refused(f"it takes more than {memory_max_bytes} bytes of memory")
    except Exception as error:
        return Broken(f"{type(error).__name__}: {error}")


def _carry_out(job: Job) -> JobAnswer:
    match job:
        case CheckJob():
            return _check(job)
        case LoadJob():
            return _load(job)
        case CompareJob():
            return _compare(job)
        case DescribeJob():
            return _describe(job)
        case AssessJob():
            return Assessed(bound_of_work(job.source))
    return Parsed(parse(job.source, normalize=job.normalize))


_loaded: OrderedDict[str, Validator] = OrderedDict()


def _load(job: LoadJob) -> Loaded:
    _loaded[job.key] = make_validator(job.source)
    if len(_loaded) > LOADED_MAX:
        _loaded.popitem(last=False)
    return Loaded()


def _check(job: CheckJob) -> Checked | NotLoaded:
    validate = _loaded.get(job.key)
    if validate is None:
        return NotLoaded()
    _loaded.move_to_end(job.key)
    reason = None
    started = process_time()
    signal.setitimer(signal.ITIMER_PROF, job.cpu_seconds_max)
    try:
        validate(job.payload)
    except InvalidContent as error:
        reason = error.message
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return Checked(reason, (process_time() - started) * 1000)


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


def _give_back_memory() -> None:
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


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
