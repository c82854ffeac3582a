"""Damaged data directories: what a broker serves of them is what was written, or it says so.

    python -m tests.crash.damages --count 1000

Each damage hits one file of a copy of a data directory. Then `goqueue data check` looks, a broker
starts, and everything is read: no record that was never written at its offset, nothing missing
without a word (log line or error), no traceback; a start works or is refused in one message.
"""

import argparse
import json
import multiprocessing
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner

from goqueue.cli.broker.data import data as data_command
from goqueue.model.errors import GoQueueError
from tests.crash.damage_folders import SETTINGS, Folders, make_folders
from tests.crash.damage_kinds import Damage, inflict
from tests.crash.damage_reading import Content, read_all
from tests.crash.forked_server import REFUSED, ForkedServer

# Damage to these may keep a broker from starting; to anything else it may not.
MAY_REFUSE = ("metadata log", "metadata snapshot", "format.json")
_SAID = re.compile(r" (WARNING|ERROR) ")


@dataclass(slots=True)
class Verdict:
    damage: Damage
    outcome: str
    # Why this must not be.
    faults: list[str] = field(default_factory=list)
    is_found_by_check: bool = False
    log_text: str = ""


class Judge:
    """Judges damages in a folder of its own."""

    def __init__(self, folders: Folders, work: Path) -> None:
        self._folders = folders
        self._work = work
        work.mkdir(exist_ok=True)
        self._truth = {state: self._read_undamaged(state) for state in ("killed", "clean")}

    def _read_undamaged(self, state: str) -> Content:
        data = self._copy(state)
        server = ForkedServer(data, self._work, SETTINGS).start()
        try:
            assert server.exit_code is None, server.log_text
            content = read_all(server.ready_file)
        finally:
            server.stop()
        assert not content.errors, content.errors
        return content

    def _copy(self, state: str) -> Path:
        data = self._work / "data"
        shutil.rmtree(data, ignore_errors=True)
        return Path(shutil.copytree(getattr(self._folders, state), data))

    def judge(self, seed: int) -> Verdict:
        chance = random.Random(seed)
        state = chance.choice(("killed", "clean"))
        data = self._copy(state)
        damage = inflict(chance, self._folders, state, data)
        verdict = Verdict(damage, "whole")
        verdict.is_found_by_check = self._check(data, verdict)
        server = ForkedServer(data, self._work, SETTINGS).start()
        try:
            if server.exit_code is None:
                self._compare(read_all(server.ready_file), server, verdict)
        finally:
            server.stop()
        verdict.log_text = server.log_text
        if server.exit_code:
            self._judge_refusal(server, verdict)
        if "Traceback" in server.log_text:
            verdict.faults.append("a traceback in the log")
        return verdict

    def _check(self, data: Path, verdict: Verdict) -> bool:
        """Whether `data check` found something; what it can mend is mended in a copy."""
        arguments = ["--data-dir", str(data), "-o", "json"]
        checked = CliRunner().invoke(data_command, ["check", *arguments])
        if _is_crash(checked.exception):
            verdict.faults.append(f"data check failed: {checked.exception!r}")
        if checked.exit_code and '"offsets"' in checked.output and ".log" in checked.output:
            mended = self._work / "mended"
            shutil.rmtree(mended, ignore_errors=True)
            shutil.copytree(data, mended)
            arguments = ["--data-dir", str(mended), "-o", "json"]
            for step in (["repair", *arguments, "--write"], ["check", *arguments]):
                done = CliRunner().invoke(data_command, step)
                if _is_crash(done.exception):
                    verdict.faults.append(f"data {step[0]} failed: {done.exception!r}")
            if "leave these offsets out" in done.output:
                verdict.faults.append(f"not mended: {done.output}")
        return bool(checked.exit_code)

    def _compare(self, found: Content, server: ForkedServer, verdict: Verdict) -> None:
        truth = self._truth[verdict.damage.state]
        verdict.faults += found.differences(truth)
        missing = found.missing(truth)
        if missing or found.errors:
            verdict.outcome = "partial"
        is_said = bool(found.errors) or bool(_SAID.search(server.log_text))
        if missing and not is_said and not _may_be_a_torn_end(verdict.damage):
            verdict.faults.append(f"missing without a word: {missing[:5]}")

    def _judge_refusal(self, server: ForkedServer, verdict: Verdict) -> None:
        verdict.outcome = "refused"
        if server.exit_code != REFUSED or "goqueue: " not in server.log_text:
            verdict.faults.append(f"ended with {server.exit_code}")
        elif verdict.damage.kind not in MAY_REFUSE:
            verdict.faults.append("it does not start")


def _is_crash(error: BaseException | None) -> bool:
    """Other than an end with a status, or with a message."""
    return error is not None and not isinstance(error, SystemExit | GoQueueError)


def _may_be_a_torn_end(damage: Damage) -> bool:
    """After a kill, nobody knows where the segment that took appends or the metadata ended."""
    is_growing = damage.is_active or damage.kind == "metadata log"
    return damage.state == "killed" and is_growing and damage.way in ("cut", "old")


def run(folders: Folders, work: Path, seeds: range, report: Path) -> None:
    judge = Judge(folders, work)
    with report.open("w") as lines:
        for seed in seeds:
            try:
                verdict = judge.judge(seed)
            except Exception as error:
                lines.write(json.dumps({"seed": seed, "faults": [repr(error)]}) + "\n")
                continue
            line = {
                "seed": seed,
                "damage": str(verdict.damage),
                "kind": verdict.damage.kind,
                "outcome": verdict.outcome,
                "check": verdict.is_found_by_check,
                "faults": verdict.faults,
            }
            if verdict.faults:
                line["log"] = verdict.log_text[-3000:]
            lines.write(json.dumps(line) + "\n")
            lines.flush()


def run_all(base: Path, seeds: range, *, processes: int) -> list[dict[str, object]]:
    """A part of the seeds in each process; the lines of all, by seed."""
    folders = make_folders(base)
    fork = multiprocessing.get_context("fork")
    reports = [base / f"report{number}" for number in range(processes)]
    workers = [
        fork.Process(target=run, args=(folders, base / f"work{n}", seeds[n::processes], report))
        for n, report in enumerate(reports)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(worker.exitcode == 0 for worker in workers), "a judge failed"
    lines = [json.loads(line) for report in reports for line in report.read_text().splitlines()]
    return sorted(lines, key=lambda line: int(line["seed"]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="Folder of the undamaged data, made if need be.")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        base = options.keep or Path(temporary)
        lines = run_all(
            base, range(options.seed, options.seed + options.count), processes=options.processes
        )
    outcomes = Counter(line.get("outcome", "judge failed") for line in lines)
    kinds = Counter(line.get("kind") for line in lines)
    failed = [line for line in lines if line["faults"]]
    for line in failed:
        print(json.dumps(line, indent=1))
    print(
        f"{len(lines)} damages of {len(kinds)} kinds of files in {time.monotonic() - began:.0f} s"
    )
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    print(f"{sum(bool(line.get('check')) for line in lines)} found by data check")
    print(f"{len(failed)} faults")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
