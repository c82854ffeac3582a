"""Pipelines as processes: in this terminal, or in the background."""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Final

import typer

from goqueue.cli.failures import CommandFailed
from goqueue.cli.pipelines.exit_codes import ExitCode
from goqueue.cli.pipelines.view import on_screen
from goqueue.model.errors import GoQueueError
from goqueue.spark.java_home import find_java_home
from goqueue.spark.pipelines.checks import Pipeline, check_spark
from goqueue.spark.pipelines.definition import AVAILABLE_NOW, PipelineDefinition
from goqueue.spark.pipelines.run_lock import LOCK_VARIABLE
from goqueue.spark.pipelines.run_status import RunState
from goqueue.spark.pipelines.runner import PipelineRunner, RunOptions, StopRequest
from goqueue.spark.pipelines.spark_errors import plain_reason
from goqueue.spark.pipelines.state_folder import StateFolder
from goqueue.spark.pipelines.supervision import Restarts, Supervisor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL: Final = "local[*]"
_STANDALONE: Final = "spark://"
_MASTER_SECONDS: Final = 5.0
# Java and Spark start within ten seconds on a quiet machine; a cluster takes longer to answer.
_START_SECONDS: Final = 180
_LOOK_SECONDS: Final = 0.2
# After a signal: time to end the query, and the same once more before the kernel does it.
_SIGNAL_SECONDS: Final = 15
# They print every refused query a second time, with its stack.
NOISY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# Says that this process is the one in the background, whose log is its standard error.
_DETACHED: Final = "GOQUEUE_PIPELINE_DETACHED"


class SparkTarget:
    """The cluster that a run is for, and what its workers get: by the command line, else by the
    definition.
    """

    def __init__(
        self, definition: PipelineDefinition, master: str | None, package: str | None
    ) -> None:
        run = definition.run
        self._given = (("--master", master), ("--package", package))
        self.master = master or run.master or _LOCAL
        self.package = package or (definition.path_text(run.package) if run.package else None)

    @property
    def arguments(self) -> list[str]:
        """The same for the command of another process."""
        return [part for name, value in self._given if value for part in (name, value)]


def check_with_spark(pipeline: Pipeline, target: SparkTarget) -> None:
    with open(os.devnull, "w") as log, _session(pipeline, target, log) as spark:
        check_spark(spark, pipeline)


def run_here(pipeline: Pipeline, target: SparkTarget, *, once: bool, dry_run: bool) -> None:
    """Until it ends, is stopped, or somebody presses Ctrl-C."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        _run(pipeline, target, once=once, dry_run=dry_run)
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)


def _run(pipeline: Pipeline, target: SparkTarget, *, once: bool, dry_run: bool) -> None:
    definition = pipeline.definition
    folder = StateFolder(definition.name)
    stop = StopRequest(folder)
    options = RunOptions(
        master=target.master,
        trigger=AVAILABLE_NOW if once else definition.run.trigger,
    )
    # A run in the background has its log as standard error already; one that is begun again adds
    # to what the failed one wrote.
    is_appended = bool(os.environ.get(_DETACHED) or os.environ.get(LOCK_VARIABLE))

    @contextmanager
    def open_session() -> "Iterator[SparkSession]":
        watcher.say(f"{definition.name}: starting Spark on {options.master}")
        log_path = Path(os.devnull) if dry_run else folder.log_path
        with (
            log_path.open("a" if is_appended else "w") as log,
            _session(pipeline, target, log) as spark,
        ):
            _on_signals(stop)
            yield spark

    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with on_screen() as watcher:
        runner = PipelineRunner(
            pipeline, folder, options, open_session=open_session, stop=stop, watcher=watcher
        )
        if dry_run:
            runner.dry_run()
            return
        state = runner.run()
    typer.echo(f"{definition.name}: {state}")


def run_and_restart(
    pipeline: Pipeline, target: SparkTarget, *, once: bool, max_failures: int
) -> None:
    """Watch a process of its own, and begin it again when it fails."""
    folder = StateFolder(pipeline.definition.name)
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    for each in handlers:
        # The run may have the same signal: the file says it once to both.
        signal.signal(each, lambda *_: folder.request_stop())
    supervisor = Supervisor(
        folder,
        Restarts(max_failures=max_failures),
        say=lambda line: typer.echo(line, err=True),
        stays_failed=(ExitCode.WRONG, ExitCode.RUNNING_ALREADY),
    )
    try:
        code = supervisor.run(_command(pipeline, target, once=once))
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    if code:
        raise typer.Exit(code)


def _command(pipeline: Pipeline, target: SparkTarget, *, once: bool) -> list[str]:
    path = str(pipeline.definition.file.path)
    command = [sys.executable, "-m", "goqueue", "pipeline", "run", path, *target.arguments]
    return [*command, "--once"] if once else command


def run_detached(
    pipeline: Pipeline, target: SparkTarget, *, once: bool, max_failures: int | None
) -> None:
    """Start a process of its own, and wait until it runs or has failed.

    With `max_failures` it is one that watches the run and begins it again.
    """
    definition = pipeline.definition
    folder = StateFolder(definition.name)
    with folder.locked():  # refuse a second run before anything is touched
        before = folder.written_ns
    command = _command(pipeline, target, once=once)
    if max_failures is not None:
        command += ["--restart", "--max-failures", str(max_failures)]
    with folder.log_path.open("w") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=os.environ | {_DETACHED: "1"},
        )
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        is_new = folder.written_ns != before
        state = folder.status().state if is_new else RunState.STARTING
        if state is not RunState.STARTING or process.poll() is not None:
            break
        time.sleep(_LOOK_SECONDS)
    else:
        process.terminate()
        raise CommandFailed(
            f"{definition.name} did not start within {_START_SECONDS} s; see {folder.log_path}"
        )
    if folder.written_ns == before:
        raise CommandFailed(f"{definition.name} did not start: {folder.log_tail().strip()}")
    status = folder.status()
    if status.state is RunState.FAILED:
        raise CommandFailed(status.error or f"{definition.name} failed; see {folder.log_path}")
    typer.echo(f"{definition.name}: {status.state}, process {process.pid}")
    typer.echo(f"see `goqueue pipeline status {definition.name}`; the log is {folder.log_path}")


def end_run(folder: StateFolder, *, timeout_seconds: float) -> None:
    """Ask; then signal the process, once gently and once for good."""
    pid = folder.status().pid
    folder.request_stop()
    if _wait_until(lambda: not folder.is_locked(), timeout_seconds):
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        # Only its own process holds the lock, so the number is not another's.
        if folder.is_locked():
            os.kill(pid, number)
        if _wait_until(lambda: not folder.is_locked(), _SIGNAL_SECONDS):
            return
    raise CommandFailed(f"process {pid} of {folder.name} does not end; see {folder.log_path}")


def _wait_until(is_so: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


@contextmanager
def _session(pipeline: Pipeline, target: SparkTarget, log: IO[str]) -> "Iterator[SparkSession]":
    """A session whose Java writes to the log, not into what the user reads."""
    from goqueue.spark.spark_session import NoConnect, session

    find_java_home()  # its error belongs to the user, not to the log
    master = target.master
    _check_master(master)
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    conf = {"spark.log.level": "WARN", **pipeline.definition.run.conf}
    try:
        with _standard_error_to(log):
            name = f"goqueue-{pipeline.definition.name}"
            spark = session(name, master, package=target.package, **conf)
    except NoConnect as error:
        raise CommandFailed(error.message, exit_code=ExitCode.NO_ANSWER) from error
    except GoQueueError:
        raise
    except Exception as error:
        raise CommandFailed(f"Spark does not start on {master}: {plain_reason(error)}") from error
    try:
        yield spark
    finally:
        spark.stop()


def _check_master(master: str) -> None:
    """Spark itself would try for a minute."""
    if not master.startswith(_STANDALONE):
        return
    reasons = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), _MASTER_SECONDS).close()
        except (OSError, ValueError) as error:
            reasons.append(f"{address} ({error})")
        else:
            return
    raise CommandFailed(
        f"no Spark master answers at {', '.join(reasons)}; start it, name another with "
        "--master, or leave that out to run on this machine",
        exit_code=ExitCode.NO_ANSWER,
    )


@contextmanager
def _standard_error_to(log: IO[str]) -> Iterator[None]:
    """For processes that are started meanwhile; they keep it when ours is back."""
    sys.stderr.flush()
    own = os.dup(2)
    try:
        os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)


def _on_signals(stop: StopRequest) -> None:
    """After Spark, which sets its own: the first asks to stop, the second ends at once."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set:
            os._exit(128 + signal.SIGTERM)
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
