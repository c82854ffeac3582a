"""`goqueue serve` read without the command-line library, which takes a fifth of a broker's start.

Only what needs no help, no completion and no complaint is read here; the rest is left to the
library, which knows the same options (a test holds the two together).
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

SETTING_OF_OPTION: Final = {
    "--data-dir": "data.dir",
    "--host": "host",
    "--kafka-port": "kafka.port",
    "--http-port": "http.port",
    "--node-id": "node.id",
    "--cluster": "cluster",
    "--workers": "workers",
}
# Options without a value, and what they set.
FLAGS: Final = {"--insecure": "insecure"}
NUMBERS: Final = ("--kafka-port", "--http-port", "--node-id", "--workers")
CONFIG: Final = "--config"
SET: Final = "--set"
READY_FILE: Final = "--ready-file"
OTHERS: Final = (CONFIG, SET, READY_FILE)


class PlainServe(NamedTuple):
    settings: dict[str, str]
    config_file: Path | None
    ready_file: Path | None


def read_plain_serve(arguments: Sequence[str]) -> PlainServe | None:
    """None where the library has to look at them."""
    if not arguments or arguments[0] != "serve":
        return None
    assigned: dict[str, str] = {}
    named: dict[str, str] = {}
    paths: dict[str, Path] = {}
    rest = iter(arguments[1:])
    for argument in rest:
        if argument in FLAGS:
            named[FLAGS[argument]] = "true"
            continue
        option, equals, value = argument.partition("=")
        if not equals:
            value = next(rest, "")
        if not value or value.startswith("-"):
            return None
        if option in SETTING_OF_OPTION:
            if option in NUMBERS and not (value.isascii() and value.isdigit()):
                return None
            named[SETTING_OF_OPTION[option]] = value
        elif option == SET:
            name, equals, text = value.partition("=")
            if not name or not equals:
                return None
            assigned[name.strip()] = text
        elif option in OTHERS:
            paths[option] = Path(value)
        else:
            return None
    return PlainServe(assigned | named, paths.get(CONFIG), paths.get(READY_FILE))


def run_plain_serve(plain: PlainServe) -> int:
    """The exit code, as the library would have it."""
    from goqueue.cli.broker.start_broker import start_broker
    from goqueue.model.errors import GoQueueError

    try:
        start_broker(plain.settings, config_file=plain.config_file, ready_file=plain.ready_file)
    except GoQueueError as error:
        print(f"goqueue: {error.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
