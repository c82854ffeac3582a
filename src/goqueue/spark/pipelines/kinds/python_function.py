"""A function of the user's that returns a DataFrame, for the sink, or queries that it started."""

import ast
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import InvalidRequest
from goqueue.spark.pipelines.definition import PipelineDefinition
from goqueue.spark.pipelines.fields import Fields
from goqueue.spark.pipelines.kinds.kind import Kind, Run, RunContext
from goqueue.spark.pipelines.problems import Problems
from goqueue.spark.pipelines.sinks import check_rows, start_rows
from goqueue.spark.pipelines.spark_errors import plain_reason
from goqueue.spark.pipelines.views import make_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECTION: Final = "python"

_DEFINITION: Final = """\
# Large orders, chosen in Python. Try it: goqueue pipeline check .   then   goqueue pipeline run .
name = "{name}"
kind = "python"

[[source]]
name = "orders"                            # a view: spark.table("orders")
topic = "orders"
format = "json"
schema = "id BIGINT, customer STRING, amount DOUBLE"
mode = "permissive"                        # null for values that are no such JSON

[python]
function = "functions.py:large_orders"     # or module:function; called with (spark, context)

[sink]                                     # where the DataFrame goes that the function returns
topic = "{name}"
partitions = 1                             # makes the topic if it is not there
key = "customer"

[run]
trigger = "5s"                             # or available-now: all there is, then end
"""
_FUNCTIONS: Final = '''\
"""Called by the pipeline with a SparkSession and the run's context.

Return a DataFrame, which goes to the sink, or queries that you started yourself, with
context.checkpoint as checkpointLocation and context.trigger as their trigger.
"""


def large_orders(spark, context):
    orders = spark.table("orders").select("value.*")
    return orders.where("amount >= 100")
'''


class PythonFunctionFailed(InvalidRequest):
    """The user's function, or the file it is in, raised an error or returned something else."""

    code = "python_function_failed"


class PythonKind(Kind):
    # A function that starts its queries writes where it likes.
    needs_sink = False

    def example(self, name: str) -> dict[str, str]:
        return {"pipeline.toml": _DEFINITION.format(name=name), "functions.py": _FUNCTIONS}

    def check(self, definition: PipelineDefinition, problems: Problems) -> None:
        fields = definition.section(_SECTION, problems)
        place = fields.text("function", required='write function = "functions.py:name"')
        fields.finish()
        where, _, name = place.rpartition(":")
        if place and not (where and name.isidentifier()):
            fields.problem("function", f"{place!r}: write file.py:function or module:function")
        elif where.endswith(".py"):
            _check_file(definition.folder / where, name, fields, problems)
        elif where and not _has_module(definition, where):
            fields.problem(
                "function", f"there is no module {where!r}; install it, or write file.py:{name}"
            )

    def start(
        self, spark: "SparkSession", definition: PipelineDefinition, context: RunContext
    ) -> Run:
        problems = Problems()
        make_views(spark, definition, problems)
        problems.raise_any()
        place = definition.section(_SECTION, problems).text("function")
        function = _import(definition, place)
        result = _call(place, lambda: function(spark, context))
        return _started(result, definition, context, place)


def _started(result: Any, definition: PipelineDefinition, context: RunContext, place: str) -> Run:
    from pyspark.sql import DataFrame

    if isinstance(result, DataFrame):
        if definition.sink is None:
            raise PythonFunctionFailed(f"{place} returned a DataFrame; say in [sink] where it goes")
        problems = Problems()
        check_rows(result, definition, problems)
        problems.raise_any()
        return start_rows(result, definition, context)
    queries = list(result) if isinstance(result, list | tuple) else [result]
    if not queries or not all(hasattr(each, "lastProgress") for each in queries):
        raise PythonFunctionFailed(
            f"{place} returned {type(result).__name__}; return a DataFrame, or the streaming "
            "queries that it started"
        )
    return Run(queries=queries)


def _check_file(path: Path, name: str, fields: Fields, problems: Problems) -> None:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except SyntaxError as error:
        problems.add(path, error.lineno or 1, "", f"not Python: {error.msg}")
    except (OSError, ValueError) as error:
        fields.problem("function", f"{path} cannot be read: {getattr(error, 'strerror', error)}")
    else:
        functions = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
        # A name that is imported or assigned is found when it is called.
        if name not in functions and name not in path.read_text(encoding="utf-8"):
            known = ", ".join(functions) or "none"
            fields.problem("function", f"{path} has no function {name!r}; it has {known}")


def _has_module(definition: PipelineDefinition, name: str) -> bool:
    _make_importable(definition)
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _import(definition: PipelineDefinition, place: str) -> Callable[..., Any]:
    where, _, name = place.rpartition(":")
    _make_importable(definition)
    if where.endswith(".py"):
        module = _call(place, lambda: _load_file(definition.folder / where))
    else:
        module = _call(place, lambda: importlib.import_module(where))
    function = getattr(module, name, None)
    if not callable(function):
        raise PythonFunctionFailed(f"{place}: there is no function {name!r} in {where}")
    found: Callable[..., Any] = function
    return found


def _load_file(path: Path) -> ModuleType:
    from pyspark import cloudpickle

    spec = importlib.util.spec_from_file_location(f"goqueue_pipeline_{path.stem}", path)
    assert spec is not None, "a .py file can be loaded"
    assert spec.loader is not None, "a .py file can be loaded"
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    # Workers do not have the file: what it defines travels with the tasks.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def _make_importable(definition: PipelineDefinition) -> None:
    folder = str(definition.folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _call(place: str, function: Callable[[], Any]) -> Any:
    from goqueue.model.errors import GoQueueError

    try:
        return function()
    except GoQueueError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [each for each in frames if "site-packages" not in each.filename][-1]
        raise PythonFunctionFailed(
            f"{theirs.filename}:{theirs.lineno}: {type(error).__name__} in {place}: "
            f"{plain_reason(error)}"
        ) from error
