"""What is of the documented form and yet refused: 422, as everywhere."""

from collections.abc import Iterator
from contextlib import contextmanager

from goqueue.doors.http.errors import Refusal
from goqueue.model.errors import InvalidRequest


@contextmanager
def refused_by_content() -> Iterator[None]:
    try:
        yield
    except InvalidRequest as error:
        if type(error) is not InvalidRequest:
            # Those have statuses of their own.
            raise
        raise Refusal(422, error.code, error.message) from None
