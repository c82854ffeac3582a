"""Spark's errors in a line: what went wrong, without the plan and the stacks of two languages."""

import re
from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.spark.shipping.worker_check import unfit_reason

_SQL_PLACE: Final = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")
_SQL_STATE: Final = re.compile(r"\.?\s*SQLSTATE: \w+.*", re.DOTALL)
_ERROR_CLASS: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ?")
# The last line of a Python traceback: `package.module.SomeError: what`.
_RAISED: Final = re.compile(
    r"^(?P<type>[A-Za-z_][\w.]*(?:Error|Exception|[a-z]\w*))(?:: (?P<what>.*))?$", re.MULTILINE
)
_OURS: Final = re.compile(r"(?:^|: ?)goqueue\.[\w.]+: (?P<what>.+)$", re.MULTILINE)
_TRACEBACK: Final = "Traceback (most recent call last):"
_STREAM_FAILED: Final = re.compile(
    r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ", re.DOTALL
)
# What follows is the query's plan and state.
_PLAN: Final = re.compile(r"\n=== Streaming Query ===")
_USER_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_NOT_THE_USERS: Final = ("site-packages", "pyspark.zip", "<frozen")
_NO_S3_CLIENT: Final = re.compile(r'S3AFileSystem not found|No FileSystem for scheme "?s3a')
_NO_S3_REASON: Final = (
    "Spark has no client for S3: set spark.jars.packages to org.apache.hadoop:hadoop-aws and the "
    "version of its Hadoop (3.5.0 for PySpark 4.3); see docs/spark-clusters.md"
)
# A reason is for one look; the whole of it is in the log.
_MAX_LENGTH: Final = 600


def plain_reason(error: BaseException) -> str:
    """One line for people."""
    if isinstance(error, GoQueueError):
        return error.message
    text = _PLAN.split(_message(error))[0]
    ours = _OURS.findall(text)
    if ours:
        # The first failure is the cause; later ones are what became of it.
        return _short(ours[0])
    unfit = unfit_reason(text)
    if unfit is not None:
        return _short(unfit)
    if _NO_S3_CLIENT.search(text):
        return _NO_S3_REASON
    text = _STREAM_FAILED.sub("", text)
    if _TRACEBACK in text:
        return _short(_python_reason(text))
    return _short(_SQL_STATE.sub("", _innermost(text)))


def sql_line(error: BaseException) -> int | None:
    """The line of the query's text that Spark points at."""
    place = _SQL_PLACE.search(str(error))
    return int(place[1]) if place else None


def _message(error: BaseException) -> str:
    get = getattr(error, "getMessage", None)
    return (get() if callable(get) else None) or str(error) or type(error).__name__


def _innermost(text: str) -> str:
    """Of nested errors with classes, the last is the one that says why."""
    lines = text.strip().splitlines()
    first = lines[0] if lines else ""
    caused = [line for line in lines if line.startswith("Caused by: ")]
    if caused:
        first = caused[-1].removeprefix("Caused by: ")
        first = first.partition(": ")[2] or first
    classes = list(_ERROR_CLASS.finditer(first))
    return first[classes[-1].end() :] if classes else first


def _python_reason(text: str) -> str:
    """The error of somebody's Python, with the line of theirs that raised it."""
    traceback = text.rsplit(_TRACEBACK, 1)[1]
    raised = [each for each in _RAISED.finditer(traceback) if not each[0].startswith(" ")]
    reason = raised[-1][0] if raised else traceback.strip().splitlines()[-1]
    frames = [
        each
        for each in _USER_FRAME.finditer(traceback)
        if not any(part in each["file"] for part in _NOT_THE_USERS)
    ]
    place = f"{frames[-1]['file']}:{frames[-1]['line']}: " if frames else ""
    return place + _SQL_STATE.sub("", reason)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"
