"""Errors on their way from one broker to another: the same class comes out, with what it says."""

import contextlib
import typing
from collections.abc import Iterator

import msgspec

from goqueue.model.calls import Failure
from goqueue.model.errors import GoQueueError


def failure_of(error: GoQueueError, *, is_untouched: bool = False) -> Failure:
    details = msgspec.to_builtins(vars(error), str_keys=False)
    return Failure(type(error).__name__, error.message, details, is_untouched)


def error_of(failure: Failure) -> GoQueueError:
    """A class that this broker does not know, it knows by what it says."""
    kind = _kinds().get(failure.kind, GoQueueError)
    error = kind.__new__(kind, failure.message)
    hints = typing.get_type_hints(kind)
    for name, value in failure.details.items():
        if name in hints:
            with contextlib.suppress(msgspec.ValidationError):
                setattr(error, name, msgspec.convert(value, hints[name]))
    return error


def _kinds() -> dict[str, type[GoQueueError]]:
    """As they are now: some are loaded with the feature that they belong to."""
    return {kind.__name__: kind for kind in _below(GoQueueError)}


def _below(kind: type[GoQueueError]) -> Iterator[type[GoQueueError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)
