"""`make demo`: orders through a queue, a log and a Spark pipeline, with a broker of its own.

Everything is in a temporary folder and on free ports, and gone at the end.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from demo.orders import Mix, messages
from demo.queue_workers import Shift, work
from goqueue.client.http_api import HttpApi
from goqueue.testing import ServerProcess

TOPIC: Final = "orders"
WORKERS: Final = 2
# Retries follow at once, or the demo would wait for them.
SETTINGS: Final = {"queue.retry.backoff.ms": "100", "queue.max.deliveries": "3"}
PATIENCE_SECONDS: Final = 60.0

console = Console(highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--keep", action="store_true", help="leave the broker running until Ctrl-C, to look around"
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = time.monotonic()
    with (
        contextlib.suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="goqueue-demo-") as name,
    ):
        folder = Path(name)
        with broker(folder) as server:
            tour(server, folder)
            console.print(f"\n[dim]{time.monotonic() - started:.0f} s in all.[/dim]")
            if given.keep:
                _wait_for_ctrl_c(server, folder)


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[ServerProcess]:
    step("A broker", "free ports, data in a temporary folder")
    began = time.monotonic()
    with ServerProcess(folder / "data", "--set", "log.level=warning") as server:
        tell(f"ready in {time.monotonic() - began:.1f} s")
        tell(f"Kafka clients: {server.bootstrap_servers}    HTTP: {server.http_url}")
        yield server


def tour(server: ServerProcess, folder: Path) -> None:
    mix = Mix()
    api = HttpApi(server.http_url)
    fill(api, mix)
    consume(server, mix)
    show_dead_letters(api)
    run_pipeline(server, folder)
    show_revenue(api, folder / "revenue" / "revenue-table")
    show_next_steps()


def fill(api: HttpApi, mix: Mix) -> None:
    step("Orders", "with customers as keys, priorities, delays, and some that are broken")
    api.post("topics", body={"name": TOPIC, "partitions": 3, "config": SETTINGS})
    api.post("topics", body={"name": "revenue", "partitions": 1})
    now_ms = time.time_ns() // 1_000_000
    sent = list(messages(mix, now_ms, random.Random(now_ms)))
    api.post("topics", TOPIC, "messages", body={"messages": sent})
    tell(
        f"{mix.orders} orders of the last {mix.minutes} minutes, every tenth urgent; "
        f"{mix.delayed} more in {mix.delay_ms // 1000} s; {mix.poisonous} that nobody can read"
    )


def consume(server: ServerProcess, mix: Mix) -> None:
    step("As a queue", f"{WORKERS} workers take orders, acknowledge them, or say that they failed")
    shift, done = Shift(), threading.Event()
    workers = [
        threading.Thread(target=work, args=(server.http_url, TOPIC, shift, done), daemon=True)
        for _ in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    wanted = mix.orders + mix.delayed
    with console.status("packing …") as status:
        await_condition(
            lambda: (
                shift.counts["packed"] >= wanted
                and len(_dead_letters(HttpApi(server.http_url))) >= mix.poisonous
            ),
            lambda: status.update(f"packing … {shift.counts['packed']} of {wanted}"),
        )
    done.set()
    for worker in workers:
        worker.join(PATIENCE_SECONDS)
    urgent = sum(priority == 1 for priority in shift.priorities[: mix.orders // 10])
    tell(f"{shift.counts['packed']} packed, the {mix.delayed} delayed ones when they were due")
    tell(f"of the first {mix.orders // 10} packed, {urgent} were urgent: they overtake the others")
    tell(f"{shift.counts['failed deliveries']} deliveries failed and were tried again")


def show_dead_letters(api: HttpApi) -> None:
    step("Dead letters", "what failed three times waits in orders.dlq, with the reason")
    table = Table(box=None, pad_edge=False)
    for column in ("offset", "reason", "deliveries", "value"):
        table.add_column(column)
    for letter in _dead_letters(api):
        table.add_row(
            f"{letter['sourcePartition']}/{letter['sourceOffset']}",
            letter["reason"],
            str(letter["deliveryCount"]),
            str(letter["value"]),
        )
    console.print(table)


def run_pipeline(server: ServerProcess, folder: Path) -> None:
    step("A Spark pipeline", "revenue per minute from the same topic, read as a log")
    shutil.copytree(Path(__file__).parent / "revenue", folder / "revenue")
    environment = {
        **os.environ,
        "GOQUEUE_BOOTSTRAP": server.bootstrap_servers,
        "GOQUEUE_PIPELINES": str(folder / "state"),
    }
    command = [sys.executable, "-m", "goqueue", "pipeline", "run", str(folder / "revenue")]
    tell("[bold]$ goqueue pipeline run demo/revenue[/bold]   (Spark needs a moment to start)")
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    lines = []
    try:
        with console.status("Spark starts …"):
            for line in process.stdout:
                lines.append(line.rstrip())
                if lines[-1].startswith("revenue"):
                    tell(f"[dim]{lines[-1]}[/dim]")
        process.wait(PATIENCE_SECONDS)
    except BaseException:
        # Ctrl-C, too, leaves nothing running.
        process.terminate()
        process.wait(PATIENCE_SECONDS)
        raise
    if process.returncode != 0:
        console.print("\n".join(lines))
        sys.exit("the pipeline failed; its output is above")


def show_revenue(api: HttpApi, table_path: Path) -> None:
    step("The same result, twice", "each row exactly once; the last minute is not over yet")
    from deltalake import DeltaTable

    answer = api.get("topics", "revenue", "partitions", "0", "messages", offset=0, limit=1000)
    by_minute = {each["key"]: _parsed(each["value"]) for each in answer["messages"]}
    rows = DeltaTable(table_path).to_pyarrow_table().to_pylist()
    table = Table(box=None, pad_edge=False)
    table.add_column("minute")
    for column in ("orders", "revenue", "in the topic", "in the Delta table"):
        table.add_column(column, justify="right")
    for row in sorted(rows, key=lambda row: row["minute"]):
        key = row["minute"].astimezone().strftime("%H:%M")
        found = by_minute.get(key)
        table.add_row(
            key,
            str(row["orders"]),
            f"{row['revenue']:,.2f}",
            "-" if found is None else f"{found['revenue']:,.2f}",
            f"{row['revenue']:,.2f}",
        )
    console.print(table)


def show_next_steps() -> None:
    step("Where to look next", "")
    for what, where in (
        ("start your own broker", "make run, or: goqueue serve"),
        ("look into the pipeline", "demo/revenue, and: goqueue pipeline init NAME --kind sql"),
        ("keep a topic for ever", "docs/archives.md: goqueue pipeline init NAME --kind archive"),
        ("count and send back dead letters", "goqueue dlq list orders, or --kind dead-letters"),
        ("follow one message", "docs/tracing.md: goqueue trace --help"),
        ("this demo, left running to look around", "make demo ARGS=--keep"),
    ):
        tell(f"{what:40}[bold]{where}[/bold]")


def step(title: str, what: str) -> None:
    console.print(f"\n[bold cyan]{title}[/bold cyan]" + (f"  [dim]{what}[/dim]" if what else ""))


def tell(line: str) -> None:
    console.print(f"  {line}", soft_wrap=True)


def await_condition(is_met: Callable[[], bool], look: Callable[[], None]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_met():
        if time.monotonic() > deadline:
            sys.exit("the queue does not get on; please report this with the output above")
        look()
        time.sleep(0.1)


def _dead_letters(api: HttpApi) -> list[dict[str, Any]]:
    return list(api.get("topics", TOPIC, "dlq")["deadLetters"])


def _parsed(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _wait_for_ctrl_c(server: ServerProcess, folder: Path) -> None:
    step("The broker runs until Ctrl-C", f"its data is in {folder}")
    tell(f"export GOQUEUE_BOOTSTRAP={server.bootstrap_servers} GOQUEUE_HTTP_URL={server.http_url}")
    threading.Event().wait()


if __name__ == "__main__":
    main()
