"""A message's journey as a time line on the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from goqueue.cli.moments import format_moment

Span = Mapping[str, Any]


class _Look(NamedTuple):
    sign: str
    colour: str
    words: str


_LOOKS: Final = {
    "publish.received": _Look("●", "green", "published"),
    "publish.partitioned": _Look("│", "dim", "checked"),
    "publish.persisted": _Look("│", "dim", "stored"),
    "publish.replicated": _Look("│", "dim", "committed"),
    "consume.fetched": _Look("▶", "cyan", "delivered"),
    "consume.acked": _Look("✔", "green", "acknowledged"),
    "consume.nacked": _Look("↻", "yellow", "nacked"),
    "consume.rejected": _Look("✘", "red", "rejected"),
    "delay.scheduled": _Look("◷", "blue", "delayed"),
    "delay.ready": _Look("●", "green", "due, put into the topic"),
    "delay.cancelled": _Look("✘", "yellow", "cancelled"),
    "delay.expired": _Look("✘", "red", "expired"),
    "visibility.timeout": _Look("⏱", "yellow", "not acknowledged in time"),
    "visibility.extended": _Look("↦", "cyan", "kept for longer"),
    "dlq.routed": _Look("☠", "red", "to the dead letters"),
    "dlq.redriven": _Look("↺", "green", "sent back from the dead letters"),
}
# In these, what a duration means goes without saying or is no news.
_HELD: Final = frozenset({"consume.acked", "consume.nacked", "consume.rejected"})
_STARTS: Final = "publish.received"


def draw_journey(trace: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    spans: Sequence[Span] = trace["spans"]
    console = Console(highlight=False)
    if not console.is_terminal:
        # A pipe has no width: nothing is folded or cut for `grep` and `awk`.
        console.width = 10_000
    started_us = trace["startedUs"]
    console.print(
        Text.assemble(
            ("trace ", "dim"),
            trace["traceId"],
            ("  from ", "dim"),
            format_moment(started_us // 1_000),
            ("  took ", "dim"),
            duration_text(trace["durationUs"]),
        )
    )
    table = Table(box=None, pad_edge=False, padding=(0, 1), show_header=False)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    place = ""
    for span in spans:
        look = _LOOKS[span["event"]]
        here = _place(span)
        table.add_row(
            f"+{duration_text(_moment_us(span) - started_us)}",
            Text(look.sign, style=look.colour),
            Text("" if here == place else here, style="bold"),
            Text.assemble((look.words, look.colour), Text(_details(span))),
        )
        place = here
    console.print(table)


def _moment_us(span: Span) -> int:
    moment_us: int = span["timeUs"]
    return moment_us if span["event"] == _STARTS else moment_us + span.get("durationUs", 0)


def _place(span: Span) -> str:
    if span["offset"] is None:
        return f"{span['topic']}/{span['partition']}"
    return f"{span['topic']}/{span['partition']}/{span['offset']}"


def _details(span: Span) -> str:
    event = span["event"]
    parts = []
    consumer, group = span.get("consumer"), span.get("group")
    if consumer:
        parts.append(f"to {consumer}" if event == "consume.fetched" else f"by {consumer}")
    if group:
        parts.append(f"of group {group}" if consumer else f"for group {group}")
    if span.get("deliveryCount") is not None:
        parts.append(f"(delivery {span['deliveryCount']})")
    took_us = span.get("durationUs", 0)
    if event in _HELD and took_us:
        parts.append(f"after {duration_text(took_us)}")
    elif event == "delay.ready":
        parts.append(f"{duration_text(took_us)} late")
    elif took_us:
        parts.append(f"in {duration_text(took_us)}")
    if span.get("linked") is not None:
        linked = span["linked"]
        parts.append(f"→ {linked['topic']}/{linked['partition']}/{linked['offset']}")
    if span.get("reason") is not None:
        parts.append(f"— {span['reason']}")
    return "".join(f" {part}" for part in parts)


def duration_text(duration_us: int) -> str:
    if duration_us < 1_000:
        return f"{duration_us} µs"
    if duration_us < 1_000_000:
        return f"{duration_us / 1_000:.1f} ms"
    seconds = duration_us / 1_000_000
    if seconds < 120:
        return f"{seconds:.2f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
