"""The schema registry with ten thousand schemas: `python -m bench.schemas`.

A real server process, asked over HTTP: how fast distinct schemas are registered, how long the
server takes to start with all of them (after kill -9, and after a clean end), and how fast it then
gives them out by id. Every schema is fetched and compared after each start.
"""

import argparse
import asyncio
import dataclasses
import json
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
    start_after_kill_s: float = 0
    start_after_clean_end_s: float = 0
    reads_per_s: float = 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.schemas", description=__doc__)
    parser.add_argument("--schemas", type=int, default=SCHEMAS)
    parser.add_argument("--save", action="store_true", help="write bench/results/schemas.json")
    arguments = parser.parse_args()
    keep_to_two_cores()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), arguments.schemas))
    show(figures)
    if arguments.save:
        save(figures, describe_machine())


async def measure(folder: Path, count: int) -> Figures:
    figures = Figures(schemas=count)
    server = ServerProcess(folder / "data")
    try:
        figures.start_empty_s = timed(server.start)
        figures.registrations_per_s, ids = await register_all(server.http_url, count)
        figures.repeated_per_s, again = await register_all(server.http_url, count)
        assert ids == again, "the same schema got another id"
        server.sigkill()
        figures.start_after_kill_s = timed(server.start)
        await check_all(server.http_url, ids)
        server.sigterm()
        figures.start_after_clean_end_s = timed(server.start)
        figures.reads_per_s = await check_all(server.http_url, ids)
    finally:
        server.close()
    return figures


def timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


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


def show(figures: Figures) -> None:
    for name, value in dataclasses.asdict(figures).items():
        print(f"{name:28}{value:>12.3f}")
    slowest_s = max(figures.start_after_kill_s, figures.start_after_clean_end_s)
    verdict = "holds" if slowest_s < START_BAR_S else "IS MISSED"
    print(f"start below {START_BAR_S:g} s: {verdict}")


def save(figures: Figures, machine: Machine) -> None:
    measured = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": dataclasses.asdict(machine),
        "figures": dataclasses.asdict(figures),
    }
    (RESULTS / "schemas.json").write_text(json.dumps(measured, indent=2) + "\n")


if __name__ == "__main__":
    main()
