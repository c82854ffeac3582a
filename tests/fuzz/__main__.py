"""Fuzz targets for a while each, guided by coverage: `make fuzz TARGETS="…" SECONDS=…`.

Works in `.fuzz/`: there are the inputs that were found and, where a promise was broken, the input
that broke it. With `--keep` both go into the corpus of the repository.
"""

import argparse
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from tests.fuzz import corpus, http_api
from tests.fuzz.catalogue import WATCHED, load_target
from tests.fuzz.seeds.tables import GENERATED, inputs_of
from tests.fuzz.trimming import lines_covered, trimmed

WORK: Final = Path(".fuzz")
# Of the whole process: the interpreter, the code, and what a target may take.
MEMORY_MAX_MB: Final = 2_048
# An input that hangs is ended by this.
INPUT_SECONDS_MAX: Final = 60
# Beyond the time to fuzz: instrumenting, and reading the corpus.
START_SECONDS_MAX: Final = 300


class Outcome(NamedTuple):
    executions: int
    edges: int
    findings: list[Path]
    said: str


def main() -> int:
    names = [*WATCHED, http_api.NAME]
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(names)}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--keep", action="store_true", help="put what was found into the corpus")
    parser.add_argument("--seeds", action="store_true", help="only make generated seeds anew")
    given = parser.parse_args()
    if unknown := set(given.targets) - set(names):
        parser.error(f"{', '.join(sorted(unknown))}: no such target; there are {', '.join(names)}")
    if given.seeds:
        for name in given.targets or WATCHED:
            _generate(name)
        return 0
    chosen = given.targets or names
    if find_spec("atheris") is None and set(chosen) != {http_api.NAME}:
        print("atheris is not installed; `make fuzz` installs it where it has a wheel")
        return 2
    outcomes = [_fuzz(name, given.seconds, keep=given.keep) for name in chosen]
    return 1 if any(outcomes) else 0


def _fuzz(name: str, seconds: int, *, keep: bool) -> bool:
    """Whether a promise was broken."""
    if name == http_api.NAME:
        print(f"{name}: {http_api.PROMISE}", flush=True)
        return not http_api.run_for(seconds)
    print(f"{name}: {load_target(name).promise}", flush=True)
    outcome = _guided(name, seconds)
    print(
        f"  {outcome.executions:,} executions, {outcome.edges:,} edges, "
        f"{len(outcome.findings)} findings",
        flush=True,
    )
    if outcome.findings:
        print(outcome.said)
    for path in outcome.findings:
        print(f"  broken by {path}")
    if keep:
        _keep(name, outcome.findings)
    return bool(outcome.findings)


def _guided(name: str, seconds: int) -> Outcome:
    inputs, findings = WORK / name / "inputs", WORK / name / "findings"
    for folder in (inputs, findings):
        folder.mkdir(parents=True, exist_ok=True)
    for member, data in inputs_of(name).items():
        (inputs / member.replace("/", "-")).write_bytes(data)
    before = set(findings.iterdir())
    command = [sys.executable, "-m", "tests.fuzz.guided", name, str(inputs)]
    command += [f"-artifact_prefix={findings}/", f"-max_total_time={seconds}"]
    command += [f"-rss_limit_mb={MEMORY_MAX_MB}", f"-timeout={INPUT_SECONDS_MAX}"]
    # Seeds of other versions take the same way through compiled readers, and are to be tried, too.
    command += ["-keep_seed=1", "-print_final_stats=1"]
    limit = seconds + INPUT_SECONDS_MAX + START_SECONDS_MAX
    run = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    said = run.stderr + run.stdout
    if "DONE" not in said and "libFuzzer" not in said:
        raise SystemExit(f"{name} did not begin:\n{said[-4_000:]}")
    counted = re.search(r"number_of_executed_units: (\d+)", said)
    edges = re.findall(r"\bcov: (\d+)", said)
    _, _, problem = said.partition("=== Uncaught Python exception: ===")
    for slow in findings.glob("slow-unit-*"):
        # By the wall clock, which says more about the machine; targets bound processor time.
        slow.unlink()
    return Outcome(
        executions=int(counted[1]) if counted else 0,
        edges=int(edges[-1]) if edges else 0,
        findings=sorted(set(findings.iterdir()) - before),
        said=(problem or said)[:4_000],
    )


def _generate(name: str) -> None:
    """Leave what was recorded and found as it is."""
    fresh = GENERATED[name]() if name in GENERATED else ()
    others = {
        member: data
        for member, data in corpus.load(name).items()
        if not member.startswith("generated/")
    }
    made = {corpus.named("generated", label, data): data for label, data in fresh}
    save(name, {**others, **made})


def _keep(name: str, findings: list[Path]) -> None:
    corpus.add(name, "finding", (("", path.read_bytes()) for path in findings))
    inputs = (path.read_bytes() for path in sorted((WORK / name / "inputs").iterdir()))
    corpus.add(name, "found", (("", data) for data in inputs))
    save(name, corpus.load(name))


def save(name: str, inputs: corpus.Corpus) -> None:
    kept = trimmed(name, inputs)
    corpus.save(name, kept)
    covered, lines = lines_covered(name, kept)
    size_kb = corpus.path_of(name).stat().st_size / 1_000
    print(f"  {len(kept)} inputs in {size_kb:.0f} KB pass {covered} of {lines} lines", flush=True)


if __name__ == "__main__":
    sys.exit(main())
