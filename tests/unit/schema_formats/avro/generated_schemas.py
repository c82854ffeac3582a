"""Hypothesis strategies: schemas, values of a schema, and what a later version may look like."""

from collections.abc import Callable
from typing import Any, TypeAlias

from hypothesis import strategies as st

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
SYMBOLS = ["A", "B", "C", "D"]
FIELDS = ["a", "b", "c", "d"]
MAX_LEVELS = 3

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

# ASCII, for bytes may be read as a string and the other way round.
texts = st.text("abcxyz", max_size=4)
SIMPLE_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": texts.map(str.encode),
    "string": texts,
}
DEFAULTS: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 2,
    "float": 1.5,
    "double": 2.5,
    "bytes": "x",
    "string": "y",
}


class Drawing:
    """One schema being drawn; each named type gets a name of its own."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.names = 0

    def new_name(self) -> str:
        self.names += 1
        return f"N{self.names}"

    def schema(self, levels: int = MAX_LEVELS) -> Any:
        kinds = ["primitive", "enum", "fixed"]
        if levels:
            kinds += ["record", "record", "array", "map", "union"]
        match self.draw(st.sampled_from(kinds)):
            case "enum":
                symbols = self.draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True))
                return {"type": "enum", "name": self.new_name(), "symbols": symbols}
            case "fixed":
                size = self.draw(st.integers(0, 3))
                return {"type": "fixed", "name": self.new_name(), "size": size}
            case "array":
                return {"type": "array", "items": self.schema(levels - 1)}
            case "map":
                return {"type": "map", "values": self.schema(levels - 1)}
            case "union":
                return self.union(levels)
            case "record":
                return self.record(levels)
        return self.draw(st.sampled_from(PRIMITIVES))

    def union(self, levels: int) -> Any:
        branches: list[Any] = self.draw(
            st.lists(st.sampled_from(PRIMITIVES), min_size=1, max_size=3, unique=True)
        )
        if self.draw(st.booleans()):
            branches.append(self.record(levels))
        return branches

    def record(self, levels: int) -> dict[str, Any]:
        name = self.new_name()
        names = self.draw(st.lists(st.sampled_from(FIELDS), unique=True))
        fields = [{"name": field, "type": self.schema(levels - 1)} for field in names]
        if self.draw(st.booleans()):
            fields.append({"name": "next", "type": ["null", name]})
        return {"type": "record", "name": name, "fields": fields}

    def later(self, schema: Any) -> Any:
        """The schema with none or some changes, of which some cannot be read."""
        match schema:
            case str() if schema in PRIMITIVES:
                return self.draw(st.sampled_from([schema, schema, schema, *PRIMITIVES]))
            case str():
                return schema
            case list():
                return self.draw(st.permutations([self._later_branch(one) for one in schema]))
            case {"type": "array", "items": items}:
                return {"type": "array", "items": self.later(items)}
            case {"type": "map", "values": values}:
                return {"type": "map", "values": self.later(values)}
            case {"type": "enum", "symbols": symbols}:
                changed = self.draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True))
                kept = self.draw(st.sampled_from([symbols, changed]))
                default = {"default": kept[0]} if self.draw(st.booleans()) else {}
                return {**schema, "symbols": kept, **default}
            case {"type": "fixed", "size": size}:
                return {**schema, "size": self.draw(st.sampled_from([size, size, size + 1]))}
        return {**schema, "fields": self._later_fields(schema["fields"])}

    def _later_branch(self, branch: Any) -> Any:
        # Primitives stay, so that none is there twice.
        return branch if isinstance(branch, str) else self.later(branch)

    def _later_fields(self, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
        changed = []
        for field in fields:
            later = {**field, "type": self.later(field["type"])}
            match self.draw(st.sampled_from(["keep", "keep", "keep", "rename", "wrap", "drop"])):
                case "rename":
                    later |= {"name": f"new_{field['name']}", "aliases": [field["name"]]}
                case "wrap" if isinstance(later["type"], str) and later["type"] != "null":
                    later["type"] = ["null", later["type"]]
                case "drop" if not defines_names(field["type"]):
                    continue
            changed.append(later)
        if self.draw(st.booleans()):
            kind = self.draw(st.sampled_from(PRIMITIVES))
            changed.append({"name": "added", "type": kind, "default": DEFAULTS[kind]})
        return changed


def defines_names(schema: Any) -> bool:
    """A field that defines a type can only go together with the uses of its name."""
    return not isinstance(schema, str)


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    return Drawing(draw).schema()


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[Any, Any]:
    """A schema and a later version of it."""
    drawing = Drawing(draw)
    schema = drawing.schema()
    return schema, drawing.later(schema)


def draw_value(draw: Draw, schema: Any, names: dict[str, Any], levels: int = 6) -> Any:
    """A value as fastavro takes it; a record in a union says which it is."""
    match schema:
        case str() if schema in PRIMITIVES:
            return draw(SIMPLE_VALUES[schema])
        case str():
            return draw_value(draw, names[schema], names, levels)
        case list():
            simple = [branch for branch in schema if branch in PRIMITIVES]
            branch = draw(st.sampled_from(schema if levels > 0 else simple))
            if isinstance(branch, str) and branch in PRIMITIVES:
                return (branch, draw_value(draw, branch, names, levels - 1))
            name = branch if isinstance(branch, str) else branch["name"]
            return (name, draw_value(draw, branch, names, levels - 1))
        case {"type": "array", "items": items}:
            return [draw_value(draw, items, names, levels - 1) for _ in range(draw(_few))]
        case {"type": "map", "values": values}:
            keys = draw(st.lists(texts, max_size=2, unique=True))
            return {key: draw_value(draw, values, names, levels - 1) for key in keys}
        case {"type": "enum", "symbols": symbols}:
            return draw(st.sampled_from(symbols))
        case {"type": "fixed", "size": size}:
            return draw(st.binary(min_size=size, max_size=size))
    names[schema["name"]] = schema
    return {
        field["name"]: draw_value(draw, field["type"], names, levels - 1)
        for field in schema["fields"]
    }


_few = st.integers(0, 2)
