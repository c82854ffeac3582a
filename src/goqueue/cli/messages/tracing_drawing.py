"""A message's journey as a time line on the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from goqueue.cli.moments import format_moment

Span = Mapping[str, Any]


class _EventStyle(NamedTuple):
    sign: str
    colour: str
    words: str


_EVENT_STYLES: Final = {
    "publish.received": _EventStyle("●", "green", "published"),
    "publish.partitioned": _EventStyle("│", "dim", "checked"),
    "publish.persisted": _EventStyle("│", "dim", "stored"),
    "publish.replicated": _EventStyle("│", "dim", "committed"),
    "consume.fetched": _EventStyle("▶", "cyan", "delivered"),
    "consume.acked": _EventStyle("✔", "green", "acknowledged"),
    "consume.nacked": _EventStyle("↻", "yellow", "nacked"),
    "consume.rejected": _EventStyle("✘", "red", "rejected"),
    "delay.scheduled": _EventStyle("◷", "blue", "delayed"),
    "delay.ready": _EventStyle("●", "green", "due, put into the topic"),
    "delay.cancelled": _EventStyle("✘", "yellow", "cancelled"),
    "delay.expired": _EventStyle("✘", "red", "expired"),
    "visibility.timeout": _EventStyle("⏱", "yellow", "not acknowledged in time"),
    "visibility.extended": _EventStyle("↦", "cyan", "kept for longer"),
    "dlq.routed": _EventStyle("☠", "red", "to the dead letters"),
    "dlq.redriven": _EventStyle("↺", "green", "sent back from the dead letters"),
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
        style = _EVENT_STYLES[span["event"]]
        here = _place(span)
        table.add_row(
            f"+{duration_text(_moment_us(span) - started_us)}",
            Text(style.sign, style=style.colour),
            Text("" if here == place else here, style="bold"),
            Text.assemble((style.words, style.colour), Text(_details(span))),
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
