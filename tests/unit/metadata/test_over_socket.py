"""The metadata store over a socket: ends that go away or mad, and bounds.

What every store does, it does in tests/contract, too.
"""

import asyncio
import os
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import uvloop

from goqueue.metadata import LocalStore, MetadataStore
from goqueue.metadata.files import Files
from goqueue.metadata.local import LocalStoreLimits
from goqueue.metadata.over_socket import SocketStore, messages, serve_store, serving, store
from goqueue.metadata.over_socket.messages import (
    LENGTH,
    OPERATIONS_MAX,
    QUESTION_MAX_BYTES,
    BeginWatch,
    EndWatch,
    GrantLease,
    Question,
    framed,
)
from goqueue.metadata.store import Get, LeaseId, Put
from goqueue.model.errors import (
    CompactedRevision,
    InvalidRequest,
    LeaseNotFound,
    MetadataUnavailable,
    ShuttingDown,
)

PATIENCE_S = 60
Story = Callable[[LocalStore], Awaitable[None]]


def run(path: Path, story: Story, *, files: Files | None = None) -> None:
    """On uvloop, as workers have it."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            local = await LocalStore.open(
                path, files=files, limits=LocalStoreLimits(retry_ms=10, history_max_revisions=100)
            )
            try:
                await story(local)
            finally:
                await local.close()

    uvloop.run(bounded())


@asynccontextmanager
async def served(local: MetadataStore) -> AsyncIterator[socket.socket]:
    """The other end, for bytes of any kind; on leaving, the end that serves has ended, too."""
    ours, theirs = socket.socketpair()
    task = asyncio.create_task(serve_store(local, ours, name="the test"))
    try:
        yield theirs
    finally:
        theirs.close()
        await task


@asynccontextmanager
async def opened(local: MetadataStore) -> AsyncIterator[SocketStore]:
    async with served(local) as theirs:
        made = await SocketStore.open(theirs)
        try:
            yield made
        finally:
            await made.close()


def test_calls_at_once_are_answered_each(tmp_path: Path) -> None:
    async def story(local: LocalStore) -> None:
        async with opened(local) as remote, opened(local) as other:
            # More than are worked on at once.
            count = 3 * serving.QUESTIONS_IN_FLIGHT_MAX
            await asyncio.gather(*(remote.put(f"/k/{i}", b"%d" % i) for i in range(count)))
            found = (await other.get_prefix("/k/")).kvs
            assert {kv.key: kv.value for kv in found} == {
                f"/k/{i}": b"%d" % i for i in range(count)
            }
            assert remote.latencies.figures().counts

    run(tmp_path, story)


def test_a_large_answer_comes_whole(tmp_path: Path) -> None:
    async def story(local: LocalStore) -> None:
        async with opened(local) as remote:
            for i in range(20):
                await remote.put(f"/k/{i:02}", os.urandom(1_000_000))
            assert await remote.get_prefix("/") == await local.get_prefix("/")

    run(tmp_path, story)


def test_what_is_too_much_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    async def story(local: LocalStore) -> None:
        async with opened(local) as remote:
            with pytest.raises(InvalidRequest, match=str(QUESTION_MAX_BYTES)):
                await remote.put("/k", b"x" * QUESTION_MAX_BYTES)
            with pytest.raises(InvalidRequest, match=str(OPERATIONS_MAX)):
                await remote.transact((), [Get(f"/{i}") for i in range(OPERATIONS_MAX + 1)])
            await remote.transact((), [Put(f"/{i}", b"") for i in range(OPERATIONS_MAX)])
            assert (await remote.get("/1")).kvs

    run(tmp_path, story)


def test_an_answer_above_its_bound_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "ANSWER_MAX_BYTES", 1_000)

    async def story(local: LocalStore) -> None:
        async with opened(local) as remote:
            await remote.put("/k", b"x" * 2_000)
            with pytest.raises(InvalidRequest, match="fewer keys"):
                await remote.get("/k")
            assert (await remote.get("/other")).kvs == ()

    run(tmp_path, story)


def test_a_store_that_fails_says_so_and_comes_back(tmp_path: Path) -> None:
    class FullDisk(Files):
        is_full = False

        def write(self, file: int, data: bytes) -> None:
            if self.is_full:
                raise OSError(28, "No space left on device")
            super().write(file, data)

    files = FullDisk()

    async def story(local: LocalStore) -> None:
        async with opened(local) as remote:
            await remote.put("/a", b"1")
            files.is_full = True
            with pytest.raises(MetadataUnavailable, match="No space"):
                await remote.put("/a", b"2")
            assert remote.unavailable_reason is not None
            files.is_full = False
            while local.unavailable_reason is not None:
                await asyncio.sleep(0.01)
            assert (await remote.get("/a")).kvs[0].value == b"1"
            assert remote.unavailable_reason is None
            with pytest.raises(LeaseNotFound):
                await remote.keep_alive(LeaseId(77))
            assert remote.unavailable_reason is None

    run(tmp_path, story, files=files)


def test_the_end_of_the_other_process_is_told_to_all_who_wait(tmp_path: Path) -> None:
    async def story(local: LocalStore) -> None:
        ours, theirs = socket.socketpair()
        lost = asyncio.Event()
        remote = await SocketStore.open(theirs, on_lost=lost.set)
        watch = remote.watch("/", 1)
        waiting = asyncio.create_task(remote.get("/a"))
        watching = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        ours.close()
        with pytest.raises(MetadataUnavailable):
            await waiting
        await lost.wait()
        for call in (remote.get("/a"), remote.put("/a", b""), remote.grant_lease(1_000)):
            with pytest.raises(MetadataUnavailable):
                await call
        with pytest.raises(MetadataUnavailable):
            remote.watch("/", 1)
        # A watch ends with the store that it is of, not before.
        assert not watching.done()
        await remote.close()
        with pytest.raises(StopAsyncIteration):
            await watching
        with pytest.raises(ShuttingDown):
            await remote.get("/a")
        del local

    run(tmp_path, story)


def test_a_call_without_an_answer_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CALL_TIMEOUT_S", 0.05)

    async def story(local: LocalStore) -> None:
        ours, theirs = socket.socketpair()
        remote = await SocketStore.open(theirs)
        with pytest.raises(MetadataUnavailable, match="no answer"):
            await remote.get("/a")
        await remote.close()
        ours.close()
        del local

    run(tmp_path, story)


def test_a_cancelled_call_leaves_the_connection_as_it_is(tmp_path: Path) -> None:
    async def story(local: LocalStore) -> None:
        async with opened(local) as remote:
            for _ in range(20):
                call = asyncio.create_task(remote.put("/a", b""))
                await asyncio.sleep(0)
                call.cancel()
            assert (await remote.get("/b")).kvs == ()

    run(tmp_path, story)


def test_a_watch_that_nobody_reads_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "WATCH_WAITING_MAX", 10)

    async def story(local: LocalStore) -> None:
        async with opened(local) as remote:
            watch = remote.watch("/", 1)
            for i in range(30):
                await remote.put("/a", b"%d" % i)
            # What waited is dropped: there is nothing but the news of it.
            with pytest.raises(CompactedRevision):
                await anext(watch)
            fresh = remote.watch("/", (await remote.get("/a")).revision)
            assert (await anext(fresh)).events[0].kv.value == b"29"

    run(tmp_path, story)


def test_watches_end_on_both_sides(tmp_path: Path) -> None:
    async def story(local: LocalStore) -> None:
        async with opened(local) as remote:
            # Far more than may be open at a time.
            for _ in range(4 * serving.WATCHES_MAX):
                watch = remote.watch("/", 1)
                await watch.aclose()
                with pytest.raises(StopAsyncIteration):
                    await anext(watch)
                await remote.get("/a")

    run(tmp_path, story)


# --- an end that has gone mad -------------------------------------------------------------


def _lengths(size: int) -> bytes:
    return LENGTH.pack(size)


def _body(message: object) -> bytes:
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body


MAD = [
    b"GET / HTTP/1.1\r\n\r\n",
    _lengths(QUESTION_MAX_BYTES + 1),
    _lengths(2**32 - 1),
    _lengths(0),
    _lengths(3) + b"\xc1\xc1\xc1",
    _body(None),
    _body([1]),
    _body([1, ["nonsense", "/a"]]),
    _body([1, ["get", b"\xff\xfe"]]),
    _body([1, ["get", 5]]),
    _body([1, ["get", "/a", "more"]]),
    _body([1, ["transact", [], [["put", "/a", "text", 0]], []]]),
    _body([1, ["transact", [], [["get", "/a"]] * (OPERATIONS_MAX + 1), []]]),
    _body([1, ["transact", [["/a", "version", "~", 0]], [], []]]),
    framed(Question(1, BeginWatch("/", 1))) * 2,
    b"".join(framed(Question(i, BeginWatch("/", 1))) for i in range(serving.WATCHES_MAX + 1)),
]


@pytest.mark.parametrize("sent", MAD, ids=range(len(MAD)))
def test_nonsense_ends_the_connection_and_nothing_else(tmp_path: Path, sent: bytes) -> None:
    async def story(local: LocalStore) -> None:
        async with opened(local) as well, served(local) as mad:
            reader, writer = await asyncio.open_unix_connection(sock=mad)
            writer.write(sent)
            # Whatever is answered to what came before it, then the end.
            while await reader.read(65_536):
                pass
            writer.close()
            await well.put("/a", b"1")
            assert (await local.get_prefix("/")).kvs[0].value == b"1"

    run(tmp_path, story)


def test_requests_that_make_no_sense_are_answered(tmp_path: Path) -> None:
    async def story(local: LocalStore) -> None:
        async with served(local) as mad:
            reader, writer = await asyncio.open_unix_connection(sock=mad)
            asked: list[messages.Asked] = [
                Get(""),
                GrantLease(-5),
                GrantLease(2**62),
                messages.KeepAlive(LeaseId(-1)),
                messages.Revoke(LeaseId(2**62)),
                messages.Transact((), (Put("", b"", LeaseId(0)),), ()),
                messages.Transact((), (Put("/a", b"", LeaseId(9)),), ()),
            ]
            for number, each in enumerate(asked):
                writer.write(framed(Question(number, each)))
            # Of a watch that there is not: nothing happens.
            writer.write(framed(Question(99, EndWatch())))
            writer.write(framed(Question(7, BeginWatch("/", -3))))
            decoder = msgspec.msgpack.Decoder(messages.Answer)
            answers: dict[int, messages.Said] = {}
            while len(answers) < len(asked) + 1:
                answer = await messages.read_frame(reader, decoder, 1_000_000)
                answers[answer.number] = answer.said
            assert all(isinstance(answers[n], messages.Refused) for n in range(1, 8))
            writer.close()
        assert (await local.get_prefix("/")).revision == 1

    run(tmp_path, story)


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_are_survived(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    asked: list[messages.Asked] = [Get("/a"), GrantLease(5_000), BeginWatch("/", 1)]
    good = [framed(Question(number, each)) for number, each in enumerate(asked)]

    def damaged(frame: bytes) -> bytes:
        broken = bytearray(frame)
        for _ in range(chance.randint(1, 4)):
            broken[chance.randrange(LENGTH.size, len(broken))] = chance.randrange(256)
        return bytes(broken)

    async def story(local: LocalStore) -> None:
        async with opened(local) as well:
            for _ in range(20):
                async with served(local) as mad:
                    reader, writer = await asyncio.open_unix_connection(sock=mad)
                    for _ in range(chance.randint(1, 5)):
                        frame = chance.choice(good)
                        writer.write(damaged(frame) if chance.random() < 0.5 else frame)
                    writer.write_eof()
                    while await reader.read(65_536):
                        pass
                    writer.close()
            assert (await well.get("/none")).kvs == ()

    run(tmp_path, story)


def test_who_does_not_read_answers_is_not_read_from(tmp_path: Path) -> None:
    """And others are served meanwhile."""

    async def story(local: LocalStore) -> None:
        await local.put("/large", b"x" * 1_000_000)
        async with opened(local) as well, served(local) as mad:
            mad.setblocking(False)
            frame = framed(Question(1, Get("/large")))
            taken = 0
            idle = 0
            # Until its questions are left in the socket: a bounded number of answers waits.
            while idle < 50:
                try:
                    taken += mad.send(frame * 100)
                    idle = 0
                except BlockingIOError:
                    idle += 1
                    await asyncio.sleep(0.01)
            assert taken < 10_000_000
            assert (await well.get("/large")).kvs

    run(tmp_path, story)
