"""Runs a pipeline in this process, from its checks to its last batch."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError
from goqueue.spark.archive.object_store import spark_uri
from goqueue.spark.pipelines.checks import Pipeline, check_broker, check_spark, make_sink_topic
from goqueue.spark.pipelines.kinds.kind import Run, RunContext
from goqueue.spark.pipelines.progress import Progress, batch_progress
from goqueue.spark.pipelines.run_status import RunState, RunStatus, now_text
from goqueue.spark.pipelines.spark_errors import plain_reason
from goqueue.spark.pipelines.state_folder import StateFolder
from goqueue.spark.pipelines.supervision import RESTARTS_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# How soon a request to stop, an end or a failure is seen.
_LOOK_SECONDS: Final = 0.3
# A batch that is being written may be finished; a longer one is broken off, and run again later.
_BATCH_PATIENCE_SECONDS: Final = 10.0


class PipelineFailed(GoQueueError):
    """It began, and could not go on."""

    code = "pipeline_failed"


class StopRequest:
    """Set by signals; the folder's stop file says the same from elsewhere."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        if not self._event.is_set() and self._folder.stop_requested:
            self._event.set()
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep, at most until a stop is asked for."""
        deadline = time.monotonic() + seconds
        while not self.is_set:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._event.wait(min(left, _LOOK_SECONDS))
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    master: str
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Who looks on: a terminal, or a log."""

    say: Callable[[str], None]
    show: Callable[[Progress], None]


class PipelineRunner:
    """One run of a pipeline; blocks until it is over."""

    def __init__(
        self,
        pipeline: Pipeline,
        folder: StateFolder,
        options: RunOptions,
        *,
        open_session: "Callable[[], AbstractContextManager[SparkSession]]",
        stop: StopRequest,
        watcher: Watcher,
    ) -> None:
        self._open_session = open_session
        self._pipeline = pipeline
        self._folder = folder
        self._options = options
        self._stop = stop
        self._watcher = watcher
        definition = pipeline.definition
        self._status = RunStatus(
            name=definition.name,
            kind=definition.kind,
            state=RunState.STARTING,
            pid=os.getpid(),
            definition=str(definition.file.path.absolute()),
            master=options.master,
            started_at=now_text(),
            restarts=int(os.environ.get(RESTARTS_VARIABLE, "0")),
        )

    def run(self) -> RunState:
        """An error says why it could not start or go on; the status says the same."""
        with self._folder.locked():
            before = self._folder.last_written()
            self._status.succeeded_at = None if before is None else before.succeeded_at
            self._folder.keep_definition(self._pipeline.definition)
            self._folder.write(self._status)
            try:
                self._run()
            except KeyboardInterrupt:
                self._end(RunState.STOPPED)
            except GoQueueError as error:
                self._end(RunState.FAILED, error.message)
                raise
            except Exception as error:
                reason = plain_reason(error)
                self._end(RunState.FAILED, reason)
                raise PipelineFailed(
                    f"pipeline {self._status.name!r} failed: {reason}; it goes on where it was "
                    "when it is run again"
                ) from error
            except BaseException:
                self._end(RunState.FAILED, "the process was ended from outside")
                raise
            else:
                self._end(RunState.STOPPED if self._stop.is_set else RunState.FINISHED)
        return self._status.state

    def dry_run(self) -> None:
        """Say what a run would do, and leave no trace of it."""
        try:
            check_broker(self._pipeline)
            with self._open_session() as spark:
                check_spark(spark, self._pipeline)
                context = self._context(is_dry_run=True)
                run = self._pipeline.kind.start(spark, self._pipeline.definition, context)
                assert run.work is not None, "a dry run starts no queries"
                run.work()
        except GoQueueError:
            raise
        except Exception as error:
            raise PipelineFailed(plain_reason(error)) from error

    def _run(self) -> None:
        definition, kind = self._pipeline.definition, self._pipeline.kind
        check_broker(self._pipeline)
        with self._open_session() as spark:
            check_spark(spark, self._pipeline)
            if self._stop.is_set:
                return
            make_sink_topic(definition)
            run = kind.start(spark, definition, self._context())
            self._status.state = RunState.RUNNING
            self._folder.write(self._status)
            try:
                self._follow(run)
            finally:
                for query in run.queries:
                    query.stop()

    def _context(self, *, is_dry_run: bool = False) -> RunContext:
        definition = self._pipeline.definition
        given = definition.run.checkpoint
        return RunContext(
            definition=definition,
            checkpoint=spark_uri(definition.path_text(given))
            if given
            else str(self._folder.checkpoint_path),
            state_folder=self._folder.path,
            trigger=self._options.trigger,
            is_dry_run=is_dry_run,
            report=self._report,
            say=self._watcher.say,
            wait=self._stop.wait,
            stop_requested=lambda: self._stop.is_set,
        )

    def _follow(self, run: Run) -> None:
        if run.work is not None:
            run.work()
        followers = [_QueryFollower(each, self._status.name) for each in run.queries]
        while any(each.is_active for each in followers) and not self._stop.is_set:
            self._look(followers)
            self._stop.wait(_LOOK_SECONDS)
        if self._stop.is_set:
            self._watcher.say(f"{self._status.name}: stopping")
            for follower in followers:
                follower.stop_between_batches()
        self._look(followers)

    def _look(self, followers: "list[_QueryFollower]") -> None:
        for follower in followers:
            for progress in follower.news():
                self._report(progress)
            follower.raise_failure()

    def _report(self, progress: Progress) -> None:
        self._status.progress[progress.query] = progress.to_json()
        self._folder.write(self._status)
        self._watcher.show(progress)

    def _end(self, state: RunState, error: str | None = None) -> None:
        self._status.state, self._status.error = state, error
        self._status.ended_at = now_text()
        if state is not RunState.FAILED:
            self._status.succeeded_at = self._status.ended_at
        self._folder.write(self._status)


class _QueryFollower:
    """Turns what Spark reports on a query into progress, each batch once."""

    def __init__(self, query: "StreamingQuery", pipeline: str) -> None:
        self._query = query
        self._name = query.name or pipeline
        self._seen: tuple[int, str] = (-1, "")
        self._rows = 0

    @property
    def is_active(self) -> bool:
        return bool(self._query.isActive)

    def news(self) -> list[Progress]:
        last = self._query.lastProgress
        if last is None or self._key(last) == self._seen:
            return []
        found = []
        for reported in self._query.recentProgress:
            if self._key(reported) > self._seen:
                self._seen = self._key(reported)
                progress = batch_progress(self._name, reported, self._rows)
                self._rows = progress.total_rows
                found.append(progress)
        return found

    def raise_failure(self) -> None:
        failure = None if self._query.isActive else self._query.exception()
        if failure is not None:
            raise failure

    def stop_between_batches(self) -> None:
        """A batch that is broken off leaves a transaction open until the query starts again."""
        deadline = time.monotonic() + _BATCH_PATIENCE_SECONDS
        seen = self._batch()
        while (
            self._query.isActive
            and self._query.status["isTriggerActive"]
            and self._batch() == seen
            and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        self._query.stop()

    def _batch(self) -> tuple[int, str] | None:
        last = self._query.lastProgress
        return None if last is None else self._key(last)

    @staticmethod
    def _key(reported: object) -> tuple[int, str]:
        return int(reported["batchId"]), str(reported["timestamp"])  # type: ignore[index]
