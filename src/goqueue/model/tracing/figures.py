"""What tracing tells about itself."""

from typing import NamedTuple

from goqueue.model.calls import Unanswered


class ExportFigures(NamedTuple):
    name: str
    exported: int
    dropped: int


class TracingFigures(NamedTuple):
    """Counts are since the start. `unanswered`: brokers whose figures are not in it."""

    is_enabled: bool
    sampling_rate: float
    # Each step halves what is sampled, while there is more than the bound allows.
    throttle_level: int
    recorded_spans: int
    left_out_messages: int
    ring_spans: int
    ring_size: int
    file_count: int
    file_bytes: int
    exports: list[ExportFigures]
    unanswered: tuple[Unanswered, ...] = ()
