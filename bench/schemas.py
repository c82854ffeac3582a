"""The schema registry with ten thousand schemas: `python -m bench.schemas`.

A real server process, asked over HTTP: how fast distinct schemas are registered, how long the
server takes to start with all of them (after kill -9, and after a clean end), and how fast it then
gives them out by id. Every schema is fetched and compared after each start.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx

from bench.machine import Machine, describe_machine, keep_to_two_cores
from goqueue.testing import ServerProcess

RESULTS: Final = Path(__file__).parent / "results"
SCHEMAS: Final = 10_000
CONNECTIONS: Final = 8
START_BAR_S: Final = 2.0


@dataclasses.dataclass(slots=True)
class Figures:
    schemas: int
    registrations_per_s: float = 0
    repeated_per_s: float = 0
    start_empty_s: float = 0
    start_empty_cpu_s: float = 0
    start_after_kill_s: float = 0
    start_after_kill_cpu_s: float = 0
    start_after_clean_end_s: float = 0
    start_after_clean_end_cpu_s: float = 0
    reads_per_s: float = 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.schemas", description=__doc__)
    parser.add_argument("--schemas", type=int, default=SCHEMAS)
    parser.add_argument("--save", action="store_true", help="write to bench/results")
    arguments = parser.parse_args()
    keep_to_two_cores()
    machine = describe_machine()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), arguments.schemas))
    text = report(figures, machine)
    print(text)
    if arguments.save:
        path = RESULTS / f"{datetime.now(UTC):%Y-%m-%d-%H%M}-schemas.md"
        path.write_text(text)
        print(f"written to {path}")


async def measure(folder: Path, count: int) -> Figures:
    figures = Figures(schemas=count)
    server = ServerProcess(folder / "data")
    try:
        figures.start_empty_s, figures.start_empty_cpu_s = start(server)
        figures.registrations_per_s, ids = await register_all(server.http_url, count)
        figures.repeated_per_s, again = await register_all(server.http_url, count)
        assert ids == again, "the same schema got another id"
        server.sigkill()
        figures.start_after_kill_s, figures.start_after_kill_cpu_s = start(server)
        await check_all(server.http_url, ids)
        server.sigterm()
        wall_s, cpu_s = start(server)
        figures.start_after_clean_end_s, figures.start_after_clean_end_cpu_s = wall_s, cpu_s
        figures.reads_per_s = await check_all(server.http_url, ids)
    finally:
        server.close()
    return figures


def start(server: ServerProcess) -> tuple[float, float]:
    """Seconds until it is ready, and seconds of processor time: what an idle machine would take."""
    started = time.monotonic()
    server.start()
    seconds = time.monotonic() - started
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    # proc(5): utime and stime are fields 14 and 15 of the line, of which two are cut off here.
    return seconds, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def schema_text(number: int) -> str:
    """Of common size: eight fields."""
    fields = [{"name": f"field_{n}", "type": ["null", "string"], "default": None} for n in range(8)]
    record = {"type": "record", "name": f"Event{number}", "namespace": "bench", "fields": fields}
    return json.dumps(record, separators=(",", ":"))


async def register_all(url: str, count: int) -> tuple[float, dict[int, int]]:
    """Schemas per second, and their ids."""
    ids: dict[int, int] = {}

    async def register(client: httpx.AsyncClient, number: int) -> None:
        body = {"schema": schema_text(number)}
        answer = await client.post(f"/subjects/event-{number}-value/versions", json=body)
        ids[number] = answer.raise_for_status().json()["id"]

    seconds = await spread(url, range(count), register)
    assert len(set(ids.values())) == count
    return count / seconds, ids


async def check_all(url: str, ids: dict[int, int]) -> float:
    """Schemas per second."""

    async def check(client: httpx.AsyncClient, number: int) -> None:
        answer = await client.get(f"/schemas/ids/{ids[number]}")
        assert answer.raise_for_status().json()["schema"] == schema_text(number)

    return len(ids) / await spread(url, ids, check)


async def spread(
    url: str,
    numbers: "range | dict[int, int]",
    work: Callable[[httpx.AsyncClient, int], Awaitable[None]],
) -> float:
    """Seconds that it takes over some connections at once."""
    waiting = iter(numbers)

    async def connection() -> None:
        async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
            for number in waiting:
                await work(client, number)

    started = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(connection())
    return time.monotonic() - started


def report(figures: Figures, machine: Machine) -> str:
    slowest_s = max(figures.start_after_kill_s, figures.start_after_clean_end_s)
    verdict = "holds" if slowest_s < START_BAR_S else "is missed"
    rows = [f"| {name} | {value:,.2f} |" for name, value in dataclasses.asdict(figures).items()]
    place = ", ".join(f"{name} {value}" for name, value in dataclasses.asdict(machine).items())
    return "\n".join(
        [
            f"# Schema registry, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            "",
            f"Machine: {place}.",
            "",
            "| figure | value |",
            "|---|---|",
            *rows,
            "",
            f"Start below {START_BAR_S:g} s: {verdict}.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
