"""A YAML text as values and lines; keys with dots become tables, as in TOML."""

from typing import Any

import yaml

from goqueue.spark.pipelines.field_lines import FieldLines, FieldPath


class RepeatedKey(ValueError):
    """A key that stands twice in one mapping: which of them counts?"""

    def __init__(self, key: str, line: int) -> None:
        super().__init__(f"{key!r} stands twice; keep one of them")
        self.line = line


def parse_yaml(text: str) -> tuple[Any, FieldLines]:
    """`yaml.MarkedYAMLError` for what is no YAML, `RepeatedKey` for what is ambiguous."""
    loader = yaml.SafeLoader(text)
    lines = FieldLines()
    try:
        node = loader.get_single_node()
        values = None if node is None else _values(loader, node, (), lines)
    finally:
        loader.dispose()
    return values, lines


def _values(loader: yaml.SafeLoader, node: yaml.Node, path: FieldPath, lines: FieldLines) -> Any:
    if isinstance(node, yaml.MappingNode):
        loader.flatten_mapping(node)
        table: dict[str, Any] = {}
        for key_node, value_node in node.value:
            _set(loader, table, key_node, value_node, path, lines)
        return table
    if isinstance(node, yaml.SequenceNode):
        found = []
        for number, item in enumerate(node.value):
            lines.set((*path, number), item.start_mark.line + 1)
            found.append(_values(loader, item, (*path, number), lines))
        return found
    return loader.construct_object(node, deep=True)


def _set(
    loader: yaml.SafeLoader,
    table: dict[str, Any],
    key_node: yaml.Node,
    value_node: yaml.Node,
    path: FieldPath,
    lines: FieldLines,
) -> None:
    key = str(key_node.value)
    line = key_node.start_mark.line + 1
    names = key.split(".")
    for name in names[:-1]:
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict):
            raise RepeatedKey(key, line)
        table = inner
    if names[-1] in table:
        raise RepeatedKey(key, line)
    path = (*path, *names)
    is_block = isinstance(value_node, yaml.ScalarNode) and value_node.style in ("|", ">")
    lines.set(path, line, text_line=value_node.start_mark.line + 1 + is_block)
    table[names[-1]] = _values(loader, value_node, path, lines)
