"""Results on standard output: as a table for people, as JSON or YAML for programs."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from goqueue.cli.options import Output

Row = Mapping[str, object]


def print_rows(rows: Sequence[Row], output: Output, *, columns: Mapping[str, str]) -> None:
    """Print rows of equal shape. `columns` maps a row's keys to headings, for the table only."""
    if output is Output.TABLE:
        print_table(rows, columns=columns)
    else:
        print_document(list(rows), output)


def print_document(document: object, output: Output) -> None:
    if output is Output.JSON:
        json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        import yaml

        yaml.safe_dump(document, sys.stdout, sort_keys=False, allow_unicode=True)


def print_table(rows: Iterable[Row], *, columns: Mapping[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    for key, heading in columns.items():
        is_number = all(isinstance(row[key], int | None) for row in rows)
        table.add_column(
            heading, justify="right" if rows and is_number else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(table_text(row[key])) for key in columns))
    console = Console(highlight=False)
    if not console.is_terminal:
        # A pipe has no width: nothing is folded or cut for `grep` and `awk`.
        console.width = 10_000
    console.print(table)


def table_text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(visible(str(item)) for item in value)
    return visible(str(value))


def visible(text: str) -> str:
    """Names and labels are what anybody chose: one that a terminal would obey, that would begin
    another line of the table, or that cannot be seen is shown as it would be typed in Python."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def size_text(size_bytes: int | None) -> str:
    if size_bytes is None:
        return "-"
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
