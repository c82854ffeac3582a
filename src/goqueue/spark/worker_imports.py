"""Keeps Spark's processes from loading what they never use.

Where Hypothesis is installed, kio makes strategies for all its types: 0.25 s of each process, and a
stream begins with one.
"""

import sys
from typing import Final

_STRATEGIES: Final = "hypothesis"
_SPARKS_OWN: Final = "pyspark."


def import_kio_alone() -> None:
    """In a process that Spark started; in others somebody may want the strategies."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if _STRATEGIES in sys.modules or not getattr(spec, "name", "").startswith(_SPARKS_OWN):
        return
    sys.modules[_STRATEGIES] = None  # type: ignore[assignment]
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules[_STRATEGIES]
