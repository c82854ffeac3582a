"""One target in the hands of atheris: started by `python -m tests.fuzz`, ends only by its limits.

python -m tests.fuzz.guided TARGET FOLDER LIBFUZZER_OPTION...
"""

import sys
from typing import Final

import atheris

from tests.fuzz import corpus
from tests.fuzz.catalogue import WATCHED, load_target
from tests.fuzz.target import INPUT_MAX_BYTES, judge

# Instrumented code takes about three times as long; what is far beyond its limit is found by this.
SLOWNESS: Final = 5


def main() -> None:
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=list(WATCHED[name])):
        target = load_target(name)
        # Much is imported on first use only; it is to be instrumented, too.
        for data in corpus.load(name).values():
            target.run(data)
    arguments = [sys.argv[0], f"-max_len={INPUT_MAX_BYTES}", *options]
    atheris.Setup(arguments, lambda data: _look(judge(target, data, slowness=SLOWNESS)))
    atheris.Fuzz()


def _look(_verdict: object) -> None:
    """libFuzzer asks for no result."""


if __name__ == "__main__":
    main()
