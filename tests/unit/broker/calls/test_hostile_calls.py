"""Requests of the right form with values that nobody would send: each is answered or refused."""

import asyncio
import random
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec import inspect

from goqueue.broker.node import Node
from goqueue.broker.own_grants import OwnWork, own_action
from goqueue.model.broker_config import broker_config
from goqueue.model.calls import Answer, Call, Travels
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE

TOPIC: Final = "t"
ROUNDS: Final = 40
INTEGERS: Final = (-(2**63), -(2**31), -1, 0, 1, 2, 7, 1_000, 2**31 - 1, 2**31, 2**63 - 1)
TEXTS: Final = (
    "",
    TOPIC,
    "none",
    "x" * 300,
    "__consumer_offsets",
    "_schemas",
    "\x00",
    "g",
    "a-b-c",
)
# What waits may wait: it is forgotten when nobody asks any more.
ANSWER_S: Final = 0.3


class Chance:
    """Values of a type, mostly odd ones."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def value(self, kind: inspect.Type) -> Any:
        chance = self._random
        match kind:
            case inspect.IntType():
                return chance.choice(INTEGERS)
            case inspect.StrType():
                return chance.choice(TEXTS)
            case inspect.BoolType():
                return chance.random() < 0.5
            case inspect.FloatType():
                return chance.choice((0.0, -1.0, 1e300, float("inf")))
            case inspect.BytesType() | inspect.ByteArrayType() | inspect.MemoryViewType():
                batch = encode_records([NewRecord(value=b"v")], now_ms=1)
                return chance.choice((b"", b"\xff" * 61, bytes(batch), bytes(batch[:-3])))
            case inspect.NoneType():
                return None
            case inspect.UUIDType():
                return "00000000-0000-0000-0000-000000000001"
            case inspect.EnumType(cls=cls):
                return chance.choice(list(cls)).value
            case inspect.LiteralType(values=values):
                return chance.choice(values)
            case _:
                return self._compound(kind)

    def _compound(self, kind: inspect.Type) -> Any:
        chance = self._random
        match kind:
            case inspect.UnionType(types=types):
                return self.value(chance.choice(types))
            case inspect.TupleType(item_types=types):
                return [self.value(each) for each in types]
            case inspect.DictType(key_type=key, value_type=value):
                return {self.key(key): self.value(value) for _ in range(chance.randrange(3))}
            case inspect.CustomType(cls=cls) if issubclass(cls, Travels):
                return self.value(inspect.type_info(cls.form))
            case inspect.StructType(fields=fields, array_like=is_row):
                found = {f.encode_name: self.value(f.type) for f in fields}
                return list(found.values()) if is_row else found
            case inspect.DataclassType(fields=fields):
                return {f.encode_name: self.value(f.type) for f in fields}
            case inspect.NamedTupleType(fields=fields):
                return [self.value(f.type) for f in fields]
            case _ if hasattr(kind, "item_type"):
                return [self.value(kind.item_type) for _ in range(chance.randrange(3))]
        raise AssertionError(f"{kind}: this test has no values of it")

    def key(self, kind: inspect.Type) -> Any:
        found = self.value(kind)
        return tuple(found) if isinstance(found, list) else found


async def answered(node: Node, body: bytes) -> Answer | None:
    call = node.calls.read(own_action(OwnWork.MARKERS), body)
    running = asyncio.ensure_future(call.run())
    done, _ = await asyncio.wait((running,), timeout=ANSWER_S)
    if not done:
        running.cancel()
        await asyncio.wait((running,))
        return None
    return msgspec.msgpack.decode(running.result(), type=Answer)


@pytest.mark.parametrize("seed", ["a", "b"])
def test_odd_requests_are_refused_or_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: str
) -> None:
    async def scenario() -> None:
        texts = {"data.dir": str(tmp_path / "data"), "kafka.port": "0", "http.port": "0"}
        node = await Node.open(broker_config(texts))
        try:
            await node.announce("127.0.0.1", 1, 1)
            service = BrokerService(node)
            await service.topics.create(ANYONE, NewTopic(name=TOPIC, partitions=2))
            asked = 0
            for name, served in node.calls._served.items():
                chance = Chance(f"{seed}/{name}")
                kind = inspect.type_info(served.method.request)
                for number in range(ROUNDS):
                    raw = msgspec.Raw(msgspec.msgpack.encode(chance.value(kind)))
                    place = ("", 0, -1) if number % 2 else (TOPIC, 0, 0)
                    body = msgspec.msgpack.encode(Call(name, *place, None, raw))
                    answer = await answered(node, body)
                    asked += 1
                    failure = None if answer is None else answer.failure
                    assert failure is None or "internal error" not in failure.message, failure
            assert asked == ROUNDS * len(node.calls._served)
            # It works as before.
            [outcome] = await service.publishing.publish(
                ANYONE, TOPIC, [NewRecord(value=b"v")], partitions=[0]
            )
            assert not isinstance(outcome, Exception)
        finally:
            await node.close()

    asyncio.run(scenario())
    assert not [line for line in caplog.records if line.exc_info], caplog.text


def test_bytes_that_are_no_call_are_refused(tmp_path: Path) -> None:
    """Text that is not UTF-8 and nesting without end have no errors of msgspec's own."""

    async def scenario() -> None:
        texts = {"data.dir": str(tmp_path / "data"), "kafka.port": "0", "http.port": "0"}
        node = await Node.open(broker_config(texts))
        try:
            name = msgspec.msgpack.encode("groups.overview")
            for body in (
                b"",
                b"\xc1",
                _call(b"\xa2\xff\xfe", msgspec.msgpack.encode(None)),
                _call(name, b"\x91" * 100_000),
                _call(name, b"\x81\xa5group\xa2\xff\xfe"),
            ):
                answer = await answered(node, body)
                assert answer is not None
                assert answer.failure is not None
                assert answer.failure.kind == "InvalidRequest", answer.failure
        finally:
            await node.close()

    asyncio.run(scenario())


def _call(name: bytes, request: bytes) -> bytes:
    """As `Call` is encoded, with the name and the request as they come."""
    whole = msgspec.msgpack.encode(Call("NAME", "", 0, -1, None, msgspec.Raw(b"\xa4HERE")))
    return whole.replace(b"\xa4NAME", name).replace(b"\xa4HERE", request)
