"""A thousand groups of three members with heartbeats: processor share, and others' latency."""

import asyncio
import time
from typing import Final

import msgspec

from bench.artifacts import kafka_load
from bench.bars import MET, NOT_MET, Bar
from bench.coordinators.broker_run import CpuMeter, create_topic, running_broker
from bench.coordinators.group_members import Heartbeats, Member, MemberConnection, form_group
from bench.load_run import Latency
from bench.rounds import say

GROUPS: Final = 1_000
MEMBERS: Final = 3
# The clients' default.
INTERVAL_S: Final = 3.0
LANES: Final = 50
TICK_S: Final = 0.005
ANSWER_GRACE_S: Final = 1.0
QUIET_S: Final = 10
PUBLISH_S: Final = 10
PUBLISH_RATE_PER_S: Final = 1_000
MAX_CORES: Final = 0.5
MAX_PUBLISH_P99_MS: Final = 10.0


def measure_heartbeats() -> list[Bar]:
    # Joins of one group arrive milliseconds apart, but a busy machine may hold one up.
    with running_broker({"group.initial.rebalance.delay.ms": "500"}) as server:
        create_topic(server, "published", 4)
        host, port = server.bootstrap_servers.split(":")
        return asyncio.run(_measure(host, int(port), server.pid))


async def _measure(host: str, port: int, pid: int) -> list[Bar]:
    alone = await _publish(host, port)
    beats = Heartbeats()
    members = await _form_groups(host, port, beats)
    ending = asyncio.Event()
    beating = asyncio.create_task(_beat(members, beats, ending))
    meter = CpuMeter(pid)
    await asyncio.sleep(QUIET_S)
    cores = meter.cores()
    beat_p99_ms = _p99(beats.latencies_ms)
    latency = await _publish(host, port)
    ending.set()
    await beating
    if beats.refused:
        raise RuntimeError(f"{beats.refused} of {beats.answered} heartbeats were refused")
    say(f"    {beats.answered} heartbeats answered, their own p99 {beat_p99_ms:.2f} ms")
    p99_ms = latency.latency_ms.p99
    what = f"{GROUPS} groups of {MEMBERS}, {GROUPS * MEMBERS / INTERVAL_S:.0f} heartbeats/s"
    return [
        Bar(
            f"{what}: processor",
            f"below {MAX_CORES} cores",
            f"{cores:.2f} cores",
            MET if cores < MAX_CORES else NOT_MET,
        ),
        Bar(
            f"{what}: publish p99 at {PUBLISH_RATE_PER_S} messages/s",
            f"below {MAX_PUBLISH_P99_MS:.0f} ms",
            f"{p99_ms:.2f} ms ({alone.latency_ms.p99:.2f} ms without groups)",
            MET if p99_ms < MAX_PUBLISH_P99_MS else NOT_MET,
        ),
    ]


async def _form_groups(host: str, port: int, beats: Heartbeats) -> list[Member]:
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    members: list[Member] = []

    async def lane(number: int) -> None:
        connections = []
        for _ in range(MEMBERS):
            _, made = await loop.create_connection(lambda: MemberConnection(beats), host, port)
            connections.append(made)
        for group in range(number, GROUPS, LANES):
            members.extend(await form_group(f"group-{group}", connections))

    await asyncio.gather(*(lane(number) for number in range(LANES)))
    say(f"    {GROUPS} groups formed in {time.perf_counter() - started:.1f} s")
    return members


async def _beat(members: list[Member], beats: Heartbeats, ending: asyncio.Event) -> None:
    """All members in turn, spread evenly over the interval."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    done = 0
    while not ending.is_set():
        due = int((loop.time() - started) / INTERVAL_S * len(members))
        while done < due:
            heartbeat, connection = members[done % len(members)]
            connection.beat(heartbeat)
            done += 1
        await asyncio.sleep(TICK_S)
    # The last answers are on their way.
    await asyncio.sleep(ANSWER_GRACE_S)
    if beats.waiting:
        raise RuntimeError(f"{len(beats.waiting)} heartbeats were not answered")


async def _publish(host: str, port: int) -> Latency:
    generator = await asyncio.create_subprocess_exec(
        kafka_load(),
        *("publish-latency", "--brokers", f"{host}:{port}", "--topic", "published"),
        *("--rate", str(PUBLISH_RATE_PER_S), "--seconds", str(PUBLISH_S)),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await generator.communicate()
    return msgspec.json.decode(output, type=Latency)


def _p99(latencies_ms: list[float]) -> float:
    return sorted(latencies_ms)[int(len(latencies_ms) * 0.99)]
