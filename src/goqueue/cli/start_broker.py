"""From the options of `goqueue serve` to a running broker, importing no more than it needs."""

import gc
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

from goqueue.server.setting_sources import load_broker_config

# Where they are installed, kio prepares Hypothesis strategies for its types, and Litestar support
# for pydantic models.
_NEEDLESS: Final = ("hypothesis", "pydantic")
# Their packages import these command lines at once, with click, argparse and multiprocessing.
_COMMAND_LINES: Final = ("crc32c._cli", "uvicorn.main")
# Its first lines import its clients, too; we use its codecs of records.
_USED_IN_PARTS: Final = "aiokafka"


def start_broker(
    options: Mapping[str, str], *, config_file: Path | None, ready_file: Path | None
) -> None:
    """Runs until SIGTERM or Ctrl-C; raises `GoQueueError` when it cannot start."""
    loaded = load_broker_config(config_file=config_file, environment=os.environ, options=options)
    _skip_needless_imports()

    from goqueue.server import process

    process.serve(loaded, ready_file=ready_file)


def _skip_needless_imports() -> None:
    """Keep libraries from loading what a broker never uses, for a start in half the time."""
    for name in _NEEDLESS:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    for name in _COMMAND_LINES:
        sys.modules.setdefault(name, _Absent(name))
    spec = importlib.util.find_spec(_USED_IN_PARTS)
    if spec is not None and _USED_IN_PARTS not in sys.modules:
        sys.modules[_USED_IN_PARTS] = importlib.util.module_from_spec(spec)
    # Imports make no garbage; `serve` freezes what they made and switches the collector on again.
    gc.disable()


class _Absent(ModuleType):
    """Has whatever is imported from it, as None."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)
