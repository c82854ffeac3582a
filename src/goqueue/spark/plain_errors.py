"""Errors that are meant for users leave Spark's workers as one line, without a stack.

Spark runs sources and sinks in processes of its own, and hands an error over as the text of its
whole stack, some forty lines with the message at their end. Errors that nobody expects keep theirs.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterator
from functools import wraps
from typing import Any, Final, TypeVar

from goqueue.model.errors import GoQueueError

# Spark's worker asks for it when it writes down the error it ends with.
_HIDE: Final = "SPARK_HIDE_TRACEBACK"
_WORKERS: Final = "pyspark."

_Class = TypeVar("_Class", bound=type)


def plain_errors(decorated: _Class) -> _Class:
    """Of a class that Spark calls: all methods that its base classes have."""
    for name, method in list(vars(decorated).items()):
        is_of_spark = any(hasattr(base, name) for base in decorated.__mro__[1:])
        if callable(method) and is_of_spark and not name.startswith("_"):
            setattr(decorated, name, _plain(method))
    return decorated


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        try:
            found = method(*given, **named)
        except GoQueueError:
            _hide_the_stack()
            raise
        return _iterated(found) if isinstance(found, Generator) else found

    return call


def _iterated(found: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from found
    except GoQueueError:
        _hide_the_stack()
        raise


def _hide_the_stack() -> None:
    """A worker ends with its error: no other's stack is hidden."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if str(getattr(spec, "name", "")).startswith(_WORKERS):
        os.environ[_HIDE] = "1"
