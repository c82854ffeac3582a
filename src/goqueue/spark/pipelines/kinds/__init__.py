"""The kinds of pipelines, by the name that stands in a definition.

A kind checks what only it knows, says how an example looks, and starts the work; it keeps no state
of its own. Modules are imported when a pipeline of their kind is met.
"""

import importlib
from typing import Final

from goqueue.spark.pipelines.kinds.kind import Kind

_MODULES: Final = {
    "sql": "goqueue.spark.pipelines.kinds.sql:SqlKind",
    "python": "goqueue.spark.pipelines.kinds.python_function:PythonKind",
    "replay": "goqueue.spark.pipelines.kinds.replay:ReplayKind",
    "archive": "goqueue.spark.pipelines.kinds.archive:ArchiveKind",
    "dead-letters": "goqueue.spark.pipelines.kinds.dead_letters:DeadLettersKind",
}
# The tables of a definition that belong to a kind, besides source, sink and run.
SECTIONS: Final[dict[str, tuple[str, ...]]] = {name: (name,) for name in _MODULES}
NAMES: Final = tuple(_MODULES)


def find_kind(name: str) -> Kind:
    module, _, attribute = _MODULES[name].partition(":")
    kind: Kind = getattr(importlib.import_module(module), attribute)()
    return kind
