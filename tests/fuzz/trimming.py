"""Which inputs of a corpus are worth keeping: those that take a way through the code of their own.

A way is a step from one line to the next in the modules that a fuzzer watches. This needs no
instrumented code, and a corpus looks the same on every machine.
"""

import sys
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any, Final

from tests.fuzz.catalogue import WATCHED, load_target
from tests.fuzz.corpus import Corpus

# Kept whatever they add: what real clients sent, and what once broke a promise.
_KEPT: Final = ("recorded/", "finding/")

Step = tuple[CodeType, int, int]


def trimmed(target: str, corpus: Corpus) -> dict[str, bytes]:
    """The inputs to keep. Of generated ones, the first of each label stays in any case."""
    run = load_target(target).run
    modules = WATCHED[target]
    seen: set[Step] = set()
    labels: set[str] = set()
    kept: dict[str, bytes] = {}
    for name, data in sorted(corpus.items(), key=_first_come):
        steps = steps_of(run, data, modules)
        label = name.rpartition("-")[0]
        is_first = name.startswith("generated/") and label not in labels
        if steps - seen or is_first or name.startswith(_KEPT):
            kept[name] = data
            labels.add(label)
            seen |= steps
    return kept


def _first_come(item: tuple[str, bytes]) -> tuple[bool, bool, int, str]:
    """What is kept anyway, then what was generated, then the small ones."""
    name, data = item
    return not name.startswith(_KEPT), not name.startswith("generated/"), len(data), name


def steps_of(run: Callable[[bytes], object], data: bytes, modules: tuple[str, ...]) -> set[Step]:
    steps: set[Step] = set()
    watched: dict[CodeType, bool] = {}
    last: dict[FrameType, int] = {}

    def is_watched(frame: FrameType) -> bool:
        name = _module(frame.f_globals)
        return any(name == each or name.startswith(f"{each}.") for each in modules)

    def begin(frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if code not in watched:
            watched[code] = is_watched(frame)
        return step if watched[code] else None

    def step(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            steps.add((frame.f_code, last.get(frame, 0), frame.f_lineno))
            last[frame] = frame.f_lineno
        elif event == "return":
            last.pop(frame, None)
        return step

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        run(data)
    finally:
        sys.settrace(before)
    return steps


def _module(names: Mapping[str, Any]) -> str:
    return str(names.get("__name__", ""))


def lines_covered(target: str, corpus: Corpus) -> tuple[int, int]:
    """Lines of the watched modules that the corpus passes, and all that they have."""
    run = load_target(target).run
    passed: set[tuple[CodeType, int]] = set()
    for data in corpus.values():
        passed |= {(code, line) for code, _, line in steps_of(run, data, WATCHED[target])}
    everything = {
        (code, line)
        for name, module in list(sys.modules.items())
        if any(name == each or name.startswith(f"{each}.") for each in WATCHED[target])
        for code in _functions(getattr(module, "__file__", None))
        for line in _lines(code)
    }
    lines = {(code.co_filename, line) for code, line in passed}
    all_lines = {(code.co_filename, line) for code, line in everything}
    return len(lines & all_lines), len(all_lines)


def _functions(path: str | None) -> list[CodeType]:
    """The bodies of all functions in a file."""
    if path is None:
        return []
    with open(path) as file:
        waiting = [compile(file.read(), path, "exec")]
    found = []
    while waiting:
        code = waiting.pop()
        inner = [each for each in code.co_consts if isinstance(each, CodeType)]
        waiting += inner
        found += [each for each in inner if each.co_flags & _IS_FUNCTION]
    return found


# CO_NEWLOCALS and CO_OPTIMIZED: the body of a function, not of a class.
_IS_FUNCTION: Final = 0x1


def _lines(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}
