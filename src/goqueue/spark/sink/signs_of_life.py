"""Tells the broker while a task is at work, so that time-outs of its group can be short.

The transaction of a task that is done stays open until the last task is. What a killed driver
leaves behind has nobody who tells, and is aborted after one time-out.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from goqueue.client.transaction_group import TransactionGroup
from goqueue.model.errors import GoQueueError

log = logging.getLogger(__name__)

# Of a time-out: one that gets lost leaves time for the next.
_SIGNS: Final = 4


@contextmanager
def signs_of_life(group: TransactionGroup, timeout_ms: int) -> Iterator[None]:
    """Within the block the group's transactions do not time out."""
    is_over = threading.Event()

    def tell() -> None:
        while not is_over.wait(timeout_ms / 1000 / _SIGNS):
            try:
                group.renew()
            except GoQueueError as error:  # the next one may come through
                log.warning("group %s: no sign of life was given: %s", group.group_id, error)

    threading.Thread(target=tell, name="signs-of-life", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
