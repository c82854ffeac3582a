"""Schemas of any format as the registry's worker looks at them.

The parts of an input stand between NUL bytes: a schema, an older one that it is compared with, a
payload, and a schema that both may refer to as `other`.
"""

from typing import Final, TypedDict

from goqueue.broker.schemas.jobs import (
    Assessed,
    AssessJob,
    Broken,
    CompareJob,
    DescribeJob,
    Job,
    JobAnswer,
    Parsed,
    ParseJob,
)
from goqueue.broker.schemas.process import carry_out
from goqueue.broker.schemas.validation import LOOP_STEPS_MAX
from goqueue.broker.schemas.worker_process import MEMORY_MAX_BYTES
from goqueue.model.schemas.formats import (
    InvalidContent,
    NotExplained,
    ResolvedReference,
    SchemaSource,
    SchemaType,
)
from goqueue.schema_formats.formats import make_bounded_validator
from tests.fuzz.target import Finding, Verdict

PARTS: Final = 4


PROMISE: Final = (
    "a schema is parsed and compared or refused with a reason; its canonical text is its own; a "
    "payload fits or does not"
)


class Limits(TypedDict):
    cpu_ms_max: int
    memory_mb_max: int


# The worker ends what takes ten seconds, and has a gigabyte; most of 64 KB must take far less.
LIMITS: Final = Limits(cpu_ms_max=2_000, memory_mb_max=256)


def run(kind: SchemaType, data: bytes) -> Verdict:
    new, old, payload, other = (data.split(b"\0", PARTS - 1) + [b""] * PARTS)[:PARTS]
    references = (ResolvedReference("other", _text(other)),) if other else ()
    source = SchemaSource(kind, _text(new), references)
    older = SchemaSource(kind, _text(old), references)
    verdicts: list[Verdict] = [_done(ParseJob(source, normalize)) for normalize in (False, True)]
    if not isinstance(verdicts[0], Parsed):
        return verdicts
    _check_canonical(source, verdicts[0])
    if kind is not SchemaType.JSON:
        verdicts.append(_done(DescribeJob(source)))
    if old:
        verdicts.append(_done(CompareJob(source, [older], is_backward=True, is_forward=True)))
    assessed = _done(AssessJob(source))
    if isinstance(assessed, Assessed) and assessed.steps is not None:
        verdicts.append(_checked(source, assessed.steps, payload))
    return verdicts


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _done(job: Job) -> JobAnswer:
    answer = carry_out(job, MEMORY_MAX_BYTES)
    if isinstance(answer, Broken):
        raise Finding(f"{type(job).__name__}: {answer.reason}")
    return answer


def _check_canonical(source: SchemaSource, parsed: Parsed) -> None:
    """What is stored and given out is the same schema, and no other text comes of it."""
    canonical = source._replace(text=parsed.schema.canonical)
    again = _done(ParseJob(canonical, normalize=False))
    if again != parsed:
        raise Finding(f"{parsed} is read back as {again}")


def _checked(source: SchemaSource, steps: int, payload: bytes) -> Verdict:
    if steps * len(payload) > LOOP_STEPS_MAX:
        return "too much work for the event loop"
    try:
        make_bounded_validator(source, steps)(payload)
    except (InvalidContent, NotExplained) as error:
        return str(error)
    return "fits"
