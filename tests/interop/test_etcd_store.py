"""A real etcd that goes away and comes back, asks for a password, speaks TLS, or holds much."""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from goqueue.metadata.etcd.client import EtcdAddress
from goqueue.metadata.etcd.lease_keeper import LeaseKeeper
from goqueue.metadata.etcd.store import OPERATIONS_MAX, EtcdStore
from goqueue.metadata.store import Put
from goqueue.model.errors import InvalidRequest, MetadataUnavailable
from tests.etcd_server import EtcdServer, free_port

PATIENCE_S = 60


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EtcdServer]:
    made = EtcdServer(tmp_path)
    made.start()
    yield made
    made.stop()


@asynccontextmanager
async def opened(address: EtcdAddress) -> AsyncIterator[EtcdStore]:
    store = await EtcdStore.open(address)
    try:
        yield store
    finally:
        await store.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


def test_everything_goes_on_when_etcd_comes_back(server: EtcdServer) -> None:
    async def story() -> None:
        address = EtcdAddress(endpoints=(server.endpoint,), call_timeout_s=5)
        async with opened(address) as store:
            await store.put("/a", b"1")
            watch = store.watch("/", 2)
            assert (await anext(watch)).revision == 2
            server.kill()
            with pytest.raises(MetadataUnavailable) as caught:
                await store.put("/a", b"2")
            assert server.endpoint in str(caught.value)
            assert store.unavailable_reason == str(caught.value)
            server.start()
            while True:
                try:
                    revision = await store.put("/a", b"3")
                    break
                except MetadataUnavailable:
                    continue
            assert store.unavailable_reason is None
            batch = await anext(watch)
            while batch.revision < revision:
                batch = await anext(watch)
            assert batch.changes == (("/a", b"3", batch.revision),)

    run(story)


def test_a_member_that_is_down_is_passed_over(server: EtcdServer) -> None:
    async def story() -> None:
        nobody = free_port()
        endpoints = (f"127.0.0.1:{nobody}", server.endpoint)
        async with opened(EtcdAddress(endpoints=endpoints)) as store:
            await store.put("/a", b"1")
            assert (await store.get("/a")).kvs[0].value == b"1"

    run(story)


@pytest.mark.parametrize(
    "endpoint",
    [
        # By name; where a machine has ::1 as well, nobody listens there.
        "localhost:{port}",
        # What a name with two addresses is resolved to. Nobody listens at the first.
        "ipv4:127.0.0.2:{port},127.0.0.1:{port}",
    ],
)
def test_all_addresses_of_a_name_are_tried(server: EtcdServer, endpoint: str) -> None:
    async def story() -> None:
        address = EtcdAddress(endpoints=(endpoint.format(port=server.port),))
        async with opened(address) as store:
            lease = await store.grant_lease(60_000)
            lost = asyncio.Event()
            keeper = store.keep_lease(lease, 300, stall_max_ms=60_000, on_lost=lost.set)
            begun_s = keeper.renewed_at_s
            while keeper.renewed_at_s == begun_s:
                await asyncio.sleep(0.01)
            await store.revoke(lease)
            await lost.wait()
            keeper.stop()

    run(story)


def test_clusters_share_an_etcd_without_seeing_each_other(server: EtcdServer) -> None:
    async def story() -> None:
        async with (
            opened(EtcdAddress(endpoints=(server.endpoint,), prefix="/one")) as one,
            opened(EtcdAddress(endpoints=(server.endpoint,), prefix="/other")) as other,
        ):
            watch = other.watch("", 1)
            await one.put("/a", b"of one")
            await other.put("/a", b"of the other")
            assert [kv.key for kv in (await one.get_prefix("")).kvs] == ["/a"]
            (change,) = (await anext(watch)).changes
            assert change[:2] == ("/a", b"of the other")

    run(story)


def test_many_keys_are_read_in_pages_of_one_revision(server: EtcdServer) -> None:
    async def story() -> None:
        async with opened(EtcdAddress(endpoints=(server.endpoint,))) as store:
            keys = [f"/k/{number:05}" for number in range(25 * OPERATIONS_MAX)]
            for first in range(0, len(keys), OPERATIONS_MAX):
                await store.transact(
                    (), [Put(key, b"x" * 100) for key in keys[first : first + OPERATIONS_MAX]]
                )
            found = await store.get_prefix("/k/")
            assert [kv.key for kv in found.kvs] == keys
            assert found.revision == 26
            with pytest.raises(InvalidRequest, match="129 operations; etcd takes 128"):
                await store.transact((), [Put(key, b"") for key in keys[: OPERATIONS_MAX + 1]])

    run(story)


def test_a_password_is_asked_for_and_a_new_token_taken_when_it_expires(
    server: EtcdServer,
) -> None:
    async def story() -> None:
        await _enable_passwords(server.endpoint)
        root = EtcdAddress(endpoints=(server.endpoint,), user="root", password="secret")
        async with opened(root) as store:
            await store.put("/a", b"1")
            # A restarted etcd knows none of the tokens it gave.
            server.kill()
            server.start()
            while True:
                try:
                    assert (await store.get("/a")).kvs[0].value == b"1"
                    break
                except MetadataUnavailable:
                    continue
            await store.put("/a", b"2")
        wrong = EtcdAddress(
            endpoints=(server.endpoint,), user="root", password="wrong", call_timeout_s=1
        )
        async with opened(wrong) as store:
            told = ""
            # Passwords are slow to check: on a busy machine etcd does not answer in time.
            while "authentication" not in told:
                with pytest.raises((MetadataUnavailable, InvalidRequest)) as refused:
                    await store.get("/a")
                told = str(refused.value)

    run(story)


async def _enable_passwords(endpoint: str) -> None:
    """A user root with the role root, then authentication on: etcd's own order."""

    def text(number: int, value: str) -> bytes:
        return bytes((number << 3 | 2, len(value))) + value.encode()

    calls = [
        ("UserAdd", text(1, "root") + text(2, "secret")),
        ("RoleAdd", text(1, "root")),
        ("UserGrantRole", text(1, "root") + text(2, "root")),
        ("AuthEnable", b""),
    ]
    async with grpc.aio.insecure_channel(endpoint) as channel:
        for name, request in calls:
            call = channel.unary_unary(f"/etcdserverpb.Auth/{name}", bytes, bytes)
            await call(request)


def test_tls_with_a_certificate_of_the_client(tmp_path: Path) -> None:
    _make_certificate(tmp_path)
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    server = EtcdServer(tmp_path / "etcd", certificate=certificate, key=key)
    server.start()

    async def story() -> None:
        plain = EtcdAddress(endpoints=(server.endpoint,), call_timeout_s=1)
        async with opened(plain) as store:
            with pytest.raises(MetadataUnavailable):
                await store.get("/a")
        address = EtcdAddress(
            endpoints=(server.endpoint,),
            ca=certificate.read_bytes(),
            certificate=certificate.read_bytes(),
            key=key.read_bytes(),
        )
        async with opened(address) as store:
            await store.put("/a", b"1")
            assert (await store.get("/a")).kvs[0].value == b"1"

    try:
        run(story)
    finally:
        server.stop()


def _make_certificate(folder: Path) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")),
            *("-subj", "/CN=goqueue-test", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )


def test_a_lease_is_kept_while_the_loop_is_busy_and_not_while_it_stands_still(
    server: EtcdServer,
) -> None:
    async def story() -> None:
        address = EtcdAddress(endpoints=(server.endpoint,))
        async with opened(address) as store:
            lease = await store.grant_lease(4_000)
            await store.put("/me", b"", lease)
            lost = asyncio.Event()
            keeper = LeaseKeeper(address, lease, 4_000, stall_max_ms=8_000, on_lost=lost.set)
            keeper.start()
            # Longer than the lease, shorter than a stall.
            await asyncio.sleep(0.5)
            stand_still(6)
            assert (await store.get("/me")).kvs
            # Longer than a stall; then the lease ends, and etcd looks for expired ones.
            stand_still(10)
            await lost.wait()
            while (await store.get("/me")).kvs:
                await asyncio.sleep(0.05)
            keeper.stop()

    run(story)


def stand_still(seconds: float) -> None:
    """The event loop serves nobody."""
    time.sleep(seconds)


def test_the_version_is_told(server: EtcdServer) -> None:
    async def story() -> None:
        async with opened(EtcdAddress(endpoints=(server.endpoint,))) as store:
            assert (await store.version()).startswith("3.")

    run(story)


def test_a_store_that_is_known_to_be_away_is_not_waited_for(server: EtcdServer) -> None:
    async def story() -> None:
        async with opened(EtcdAddress(endpoints=(server.endpoint,), call_timeout_s=8)) as store:
            await store.put("/a", b"1")
            server.kill()
            with pytest.raises(MetadataUnavailable):
                await store.put("/a", b"2")
            began = time.monotonic()
            with pytest.raises(MetadataUnavailable):
                await store.put("/a", b"2")
            # Half a second on a machine that has time for it, and far less than a call may take.
            assert time.monotonic() - began < 6
            server.start()
            while (await failure_of(store.get("/a"))) is not None:
                pass
            assert store.unavailable_reason is None

    run(story)


async def failure_of(call: Awaitable[object]) -> MetadataUnavailable | None:
    try:
        await call
    except MetadataUnavailable as error:
        return error
    return None
