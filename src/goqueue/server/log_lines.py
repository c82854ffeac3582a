"""Log lines on standard error: one concise line per event, for people or as JSON."""

import json
import logging
import sys
import time
from typing import Final

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure_logging(*, level: str, line_format: str, worker: int | None = None) -> None:
    """`worker` is named in every line where several write to the same place."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine(worker) if line_format == "json" else TextLine(worker))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries are heard from only when something is wrong; the level is about our own lines.
    root.setLevel(logging.WARNING)
    logging.getLogger("goqueue").setLevel(_LEVELS[level])
    # A full pipe or a closed terminal must not turn a log line into a traceback.
    logging.raiseExceptions = False


# What ends a line, or moves a terminal's cursor: names that clients choose stand in lines, and must
# not look like lines of their own.
_CONTROLS: Final = {
    code: repr(chr(code))[1:-1] for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
}


class _Line(logging.Formatter):
    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._worker = worker


class TextLine(_Line):
    """`2030-01-31T08:15:00.123Z INFO broker: message`"""

    def format(self, record: logging.LogRecord) -> str:
        worker = "" if self._worker is None else f"[worker {self._worker}] "
        where = f"{record.levelname} {worker}{_area(record.name)}"
        line = f"{_utc(record.created)} {where}: {record.getMessage().translate(_CONTROLS)}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonLine(_Line):
    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, str | int] = {
            "time": _utc(record.created),
            "level": record.levelname.lower(),
            "area": _area(record.name),
            "message": record.getMessage(),
        }
        if self._worker is not None:
            event["worker"] = self._worker
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event, ensure_ascii=False)


def _utc(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1000) % 1000:03d}Z"


def _area(logger_name: str) -> str:
    return logger_name.removeprefix("goqueue.")
