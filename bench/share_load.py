"""Load on a share group: `python -m bench.share_load consume|latency …`; prints JSON.

consume: members read a topic that is full, accepting every record on its own.
latency: one producer at a steady rate, one member; from the moment a message is made until the
member has it, as PerfTest measures it. How late the producer was at worst is told too.
"""

import argparse
import asyncio
import json
import struct
import time
from collections.abc import Sequence
from typing import Final

import uvloop

from bench.share_wire import Fetched, ShareMember, ShareWireError, records_in
from goqueue.model.records import NewRecord, decode_records, encode_records

_STAMP: Final = struct.Struct(">q")
_TICK_S: Final = 0.001
# Latencies of the first second are those of a cold broker and client.
_WARM_UP_S: Final = 1.0
_PRODUCE: Final = (0, 9)


async def consume(arguments: argparse.Namespace) -> dict[str, object]:
    members = [
        await ShareMember.join(arguments.port, arguments.group, f"m{number}", arguments.topic)
        for number in range(arguments.members)
    ]
    # All have joined: each learns what it has in the end.
    for member in members:
        await member.heartbeat(0, arguments.topic)
    seen = 0
    redelivered = damaged = 0
    started = time.perf_counter()

    async def drain(member: ShareMember) -> None:
        nonlocal seen, redelivered, damaged
        done: Fetched | None = None
        while True:
            found = await member.fetch(done, max_records=arguments.max_records, max_wait_ms=100)
            done = found
            seen += found.count
            for index, ranges in found.acquired.items():
                redelivered += sum(a.size for a in ranges if a.delivery_count > 1)
                if records_in(found.records[index]) < sum(a.size for a in ranges):
                    damaged += 1
            if seen >= arguments.count:
                await member.fetch(done, max_records=1, max_wait_ms=0)
                return

    await asyncio.gather(*map(drain, members))
    seconds = time.perf_counter() - started
    return {"messages": seen, "seconds": seconds, "repeated": redelivered, "damaged": damaged}


async def latency(arguments: argparse.Namespace) -> dict[str, object]:
    member = await ShareMember.join(arguments.port, arguments.group, "m", arguments.topic)
    await member.fetch(None, max_records=1, max_wait_ms=0)
    latencies: list[float] = []
    total = arguments.rate * arguments.seconds
    started_ns = time.perf_counter_ns()
    producing = asyncio.create_task(_produce(arguments, started_ns))
    got = 0
    done: Fetched | None = None
    while got < total:
        found = await member.fetch(done, max_records=500, max_wait_ms=500)
        now_ns = time.perf_counter_ns()
        done = found
        got += found.count
        for index, data in found.records.items():
            ranges = found.acquired[index]
            for stamp, offset in _stamps(data):
                if any(a.first_offset <= offset <= a.last_offset for a in ranges):
                    latencies.append((now_ns - stamp) / 1e6)
        if producing.done():
            producing.result()
    lag_ms = await producing
    warm = latencies[int(arguments.rate * _WARM_UP_S) :]
    return {
        "messages": got,
        "latency_ms": _percentiles(warm),
        "failed": 0,
        "generator_lag_max_ms": lag_ms,
    }


def _stamps(data: bytes) -> list[tuple[int, int]]:
    found = []
    view = memoryview(data)
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at + 8 : at + 12]) + 12
        for record in decode_records(view[at : at + size]):
            found.append((_STAMP.unpack_from(record.value or b"")[0], record.offset))
        at += size
    return found


async def _produce(arguments: argparse.Namespace, started_ns: int) -> float:
    """Sends what is due every millisecond; each message knows when it was made."""
    reader, writer = await asyncio.open_connection("127.0.0.1", arguments.port)
    answers = asyncio.create_task(_drain(reader))
    total = arguments.rate * arguments.seconds
    filler = b"x" * (arguments.size - _STAMP.size)
    step_ns = 10**9 // arguments.rate
    sent = 0
    lag_max_ns = 0
    while sent < total:
        now_ns = time.perf_counter_ns()
        due = min((now_ns - started_ns) // step_ns + 1, total)
        if due > sent:
            lag_max_ns = max(lag_max_ns, now_ns - (started_ns + sent * step_ns))
            writer.write(_produce_frame(arguments.topic, [now_ns] * (due - sent), filler))
            sent = due
        await asyncio.sleep(_TICK_S)
    writer.write_eof()
    await answers
    return lag_max_ns / 1e6


def _produce_frame(topic: str, stamps: Sequence[int], filler: bytes) -> bytes:
    batch = encode_records(
        [NewRecord(value=_STAMP.pack(stamp) + filler) for stamp in stamps],
        now_ms=time.time_ns() // 10**6,
    )
    name = topic.encode()
    length = len(batch) + 1
    prefix = bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14])
    body = struct.pack(">hhih5sbbhi", *_PRODUCE, 1, 5, b"bench", 0, 0, 1, 10_000)
    body += bytes([2, len(name) + 1]) + name + b"\x02" + struct.pack(">i", 0)
    body += prefix + batch + b"\x00\x00\x00"
    return struct.pack(">i", len(body)) + body


async def _drain(reader: asyncio.StreamReader) -> None:
    while True:
        try:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
        except asyncio.IncompleteReadError:
            return
        answer = await reader.readexactly(size)
        # Correlation id, tags, topics, name, partitions, index, then the error code.
        at = 5 + 1
        at += answer[at] + 1 + 4
        if answer[at : at + 2] != b"\x00\x00":
            raise ShareWireError(f"produce: error {answer[at : at + 2].hex()}")


def _percentiles(values: list[float]) -> dict[str, float]:
    values.sort()

    def point(share: float) -> float:
        return values[min(int(len(values) * share), len(values) - 1)]

    return {"p50": point(0.5), "p99": point(0.99), "p99.9": point(0.999), "max": values[-1]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.share_load", description=__doc__)
    parser.add_argument("mode", choices=("consume", "latency"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="bench")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--max-records", type=int, default=500)
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--size", type=int, default=100)
    arguments = parser.parse_args()
    run = consume if arguments.mode == "consume" else latency
    print(json.dumps(uvloop.run(run(arguments))))


if __name__ == "__main__":
    main()
