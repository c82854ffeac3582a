"""Keeps libraries from loading what a broker never uses, for a start in half the time."""

import gc
import importlib.util
import sys
from types import ModuleType
from typing import Final

# Where they are installed, kio prepares Hypothesis strategies for its types, and Litestar support
# for pydantic models.
_NEEDLESS: Final = ("hypothesis", "pydantic")
# Their packages import these command lines at once, with click, argparse and multiprocessing.
_COMMAND_LINES: Final = ("crc32c._cli", "uvicorn.main")
# Its first lines import its clients, too; we use its codecs of records.
_USED_IN_PARTS: Final = "aiokafka"


def skip_needless_imports() -> None:
    """Before anything of the broker is imported."""
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
