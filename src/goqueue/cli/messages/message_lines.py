"""Messages as they appear on standard output, one after the other."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from goqueue.cli.messages.record_text import shown, shown_headers
from goqueue.cli.moments import format_moment

_COLUMNS: Final = "{:>9}  {:>10}  {:<29}  {:<20}  {}\n"
_JSON: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFormat:
    output: str
    separator: bytes
    with_keys: bool
    with_headers: bool
    with_timestamps: bool
    with_offsets: bool

    def heading(self) -> bytes:
        if self.output != "table":
            return b""
        return _COLUMNS.format("Partition", "Offset", "Time", "Key", "Value").encode()

    def format(self, message: Any) -> bytes:
        """Bytes of one message (aiokafka's ConsumerRecord), with the line end."""
        match self.output:
            case "json":
                return _JSON.encode(_fields(message)) + b"\n"
            case "yaml":
                return _yaml_item(_fields(message))
            case "table":
                return _table_line(message)
            case _:
                return self._line(message)

    def _line(self, message: Any) -> bytes:
        parts = []
        if self.with_timestamps:
            parts.append(format_moment(message.timestamp).encode())
        if self.with_offsets:
            parts.append(f"{message.partition}:{message.offset}".encode())
        if self.with_headers:
            parts.append(
                b",".join(name.encode() + b"=" + (value or b"") for name, value in message.headers)
            )
        if self.with_keys:
            parts.append(message.key or b"")
        parts.append(message.value or b"")
        return self.separator.join(parts) + b"\n"


def _fields(message: Any) -> dict[str, object]:
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "time": format_moment(message.timestamp),
        **shown(message.key, "key", "keyEncoding"),
        **shown(message.value, "value", "encoding"),
        "headers": shown_headers(message.headers),
    }


def _yaml_item(fields: dict[str, object]) -> bytes:
    import yaml

    # A list of one: items written one after the other are one valid list.
    text: str = yaml.safe_dump([fields], sort_keys=False, allow_unicode=True)
    return text.encode()


def _table_line(message: Any) -> bytes:
    return _COLUMNS.format(
        message.partition,
        message.offset,
        format_moment(message.timestamp),
        _printable(message.key),
        _printable(message.value),
    ).encode()


def _printable(data: bytes | None) -> str:
    if data is None:
        return "-"
    text = data.decode(errors="replace")
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
