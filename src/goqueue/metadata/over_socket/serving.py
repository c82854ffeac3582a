"""The end that has the store.

The other end is a process of our own user, and may still have gone mad: what it sends is bounded in
size and number, and what it does not read holds up nobody but itself. A watch is a place in the
store's history, so a slow one costs no memory.
"""

import asyncio
import logging
import socket
from typing import Final

import msgspec

from goqueue.metadata.over_socket.messages import (
    ANSWER_MAX_BYTES,
    LENGTH,
    QUESTION_MAX_BYTES,
    Answer,
    Asked,
    BadFrame,
    BeginWatch,
    Changed,
    Decided,
    Done,
    EndWatch,
    Found,
    Granted,
    GrantLease,
    KeepAlive,
    Question,
    Revoke,
    Said,
    Transact,
    framed,
    read_frame,
    refusal,
)
from goqueue.metadata.store import Get, GetPrefix, MetadataStore
from goqueue.model.errors import GoQueueError, InvalidRequest

logger = logging.getLogger(__name__)

_QUESTIONS: Final = msgspec.msgpack.Decoder(Question)

# A broker has some tens of transactions under way at most; the store syncs them in groups.
QUESTIONS_IN_FLIGHT_MAX: Final = 64
# A broker has one.
WATCHES_MAX: Final = 16


async def serve_store(store: MetadataStore, connection: socket.socket, *, name: str) -> None:
    """Answer until the other end closes. `name` says in the log who that is."""
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    served = _Connection(store, writer)
    try:
        await served.read(reader)
    except BadFrame as error:
        logger.error("%s sent %s; it is not answered any more", name, error.message)
    except (asyncio.IncompleteReadError, OSError):
        pass
    finally:
        await served.close()


class _Connection:
    def __init__(self, store: MetadataStore, writer: asyncio.StreamWriter) -> None:
        self._store = store
        self._writer = writer
        self._room = asyncio.Semaphore(QUESTIONS_IN_FLIGHT_MAX)
        # One after the other, each waiting for the reader to take it.
        self._writing = asyncio.Lock()
        self._answering: set[asyncio.Task[None]] = set()
        self._watches: dict[int, asyncio.Task[None]] = {}

    async def read(self, reader: asyncio.StreamReader) -> None:
        while True:
            await self._room.acquire()
            question: Question = await read_frame(reader, _QUESTIONS, QUESTION_MAX_BYTES)
            match question.asked:
                case BeginWatch() as wanted:
                    self._room.release()
                    self._begin_watch(question.number, wanted)
                case EndWatch():
                    self._room.release()
                    watch = self._watches.pop(question.number, None)
                    if watch is not None:
                        watch.cancel()
                case asked:
                    # Tasks begin in the order in which they are made: so do transactions.
                    task = asyncio.create_task(self._answer(question.number, asked))
                    self._answering.add(task)
                    task.add_done_callback(self._answered)

    async def close(self) -> None:
        tasks = (*self._answering, *self._watches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._writer.close()

    # --- questions with one answer --------------------------------------------------------

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._room.release()

    async def _answer(self, number: int, asked: Asked) -> None:
        try:
            said = await self._ask(asked)
        except GoQueueError as error:
            said = refusal(error)
        except Exception:
            logger.exception("a question to the metadata store failed")
            said = refusal(GoQueueError("internal error of the metadata store"))
        await self._send(number, said)

    async def _ask(self, asked: Asked) -> Said:
        store = self._store
        match asked:
            case Get():
                found = await store.get(asked.key)
                return Found(found.kvs, found.revision)
            case GetPrefix():
                found = await store.get_prefix(asked.prefix)
                return Found(found.kvs, found.revision)
            case Transact():
                done = await store.transact(asked.compares, asked.success, asked.failure)
                return Decided(done.succeeded, done.revision, done.responses)
            case GrantLease():
                return Granted(await store.grant_lease(asked.ttl_ms))
            case KeepAlive():
                return Granted(await store.keep_alive(asked.lease))
            case Revoke():
                await store.revoke(asked.lease)
                return Done()
        raise AssertionError(f"{asked} is no question with one answer")

    async def _send(self, number: int, said: Said) -> None:
        frame = framed(Answer(number, said))
        if len(frame) > ANSWER_MAX_BYTES + LENGTH.size:
            too_large = InvalidRequest(f"an answer of {len(frame)} bytes; ask for fewer keys")
            frame = framed(Answer(number, refusal(too_large)))
        async with self._writing:
            try:
                self._writer.write(frame)
                await self._writer.drain()
            except OSError:
                # Nobody is there any more; whoever reads notices, too.
                return

    # --- watches --------------------------------------------------------------------------

    def _begin_watch(self, number: int, wanted: BeginWatch) -> None:
        if number in self._watches:
            raise BadFrame(f"two watches of number {number}")
        if len(self._watches) >= WATCHES_MAX:
            raise BadFrame(f"more than {WATCHES_MAX} watches")
        self._watches[number] = asyncio.create_task(self._watch(number, wanted))

    async def _watch(self, number: int, wanted: BeginWatch) -> None:
        try:
            watch = self._store.watch(wanted.prefix, wanted.from_revision)
            async for batch in watch:
                await self._send(number, Changed(batch))
            await self._send(number, Done())
        except GoQueueError as error:
            await self._send(number, refusal(error))
        finally:
            # Unless it was ended, and the number is in use again.
            if self._watches.get(number) is asyncio.current_task():
                del self._watches[number]
