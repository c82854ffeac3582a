"""What supervisor and worker tell each other besides what is in the metadata store."""

import msgspec


class Order(msgspec.Struct, frozen=True):
    """To a worker, on its standard input: all its settings, as text by name."""

    worker: int
    settings: dict[str, str]


class Report(msgspec.Struct, frozen=True):
    """Of a worker, one line on its standard output: it is ready, or why it cannot start."""

    problem: str = ""
