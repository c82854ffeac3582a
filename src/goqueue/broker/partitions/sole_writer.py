"""Which turns of a topic's one writer are over, as the leader of one of its partitions knows it.

A writer sends one append after the other, so that one which arrives after a later one was given up:
it is refused. Whoever reads what a writer stored, to go on from there or to see whether an append
came true, first says that the writer's turns up to now are over. An append that comes later is
refused; one that came before is in the log by the time that is read. It is forgotten with the
leadership: what is asked of the next leader says under which epoch, and what was meant for this one
is refused there.
"""

from goqueue.broker.partitions.turn import Turn
from goqueue.model.errors import NotLeader
from goqueue.model.publishing import WriterTurn, before_term


class SoleWriter:
    __slots__ = ("_line", "_next")

    def __init__(self, line: Turn) -> None:
        # Those who were let in, and must wait before they append.
        self._line = line
        # All before it are over.
        self._next = before_term(-1)

    def admit(self, turn: WriterTurn) -> None:
        """To be asked in the turn of the event loop in which it is appended, or stands in line."""
        if turn < self._next:
            raise NotLeader(
                f"turn {turn.number} of the writer of term {turn.term} is over: "
                f"the next is {self._next.number} of term {self._next.term}"
            )
        self._next = turn

    async def end(self, turn: WriterTurn) -> None:
        """On return everything up to this turn is appended, or will never be."""
        self._next = max(self._next, turn._replace(number=turn.number + 1))
        if self._line.in_line:
            async with self._line:
                pass
