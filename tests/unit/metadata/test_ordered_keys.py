"""Many keys that come and go in one transaction: those of a prefix stay complete and in order."""

import random

from goqueue.metadata.keyspace import Keyspace
from goqueue.metadata.store import Delete, Op, Put


def test_prefixes_after_large_transactions() -> None:
    keyspace, known, drawn = Keyspace(), set[str](), random.Random(7)
    for _ in range(50):
        new = {f"/{drawn.randrange(2_000):04}" for _ in range(60)}
        gone = set(drawn.sample(sorted(known), min(len(known), 40))) - new
        ops: list[Op] = [*(Put(key, b"") for key in new), *(Delete(key) for key in gone)]
        drawn.shuffle(ops)
        record = keyspace.decide([], ops, []).record
        assert record is not None
        keyspace.replay(record)
        known = known - gone | new
        assert [kv.key for kv in keyspace.get_prefix("/")] == sorted(known)
        assert [kv.key for kv in keyspace.get_prefix("/1")] == sorted(
            key for key in known if key.startswith("/1")
        )
