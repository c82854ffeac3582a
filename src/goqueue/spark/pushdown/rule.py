"""Puts the rule into a session. Spark has a compiler for Java with it, so that no jar is needed."""

import logging
from collections.abc import Iterable
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.source.filter_bounds import PUSHES_FILTERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_CLASS: Final = "goqueue.PushDown"
_SOURCE: Final = "PushDown.java"
_FORMATS: Final = ("goqueue", "goqueue-live-log")
# For queries that want rows and no column, the cheapest first: `count()`.
_CHEAP_COLUMNS: Final = ("partition", "topic", "timestampType", "priority", "offset", "timestamp")


def push_down(spark: "SparkSession") -> None:
    """Readers in this session are told columns and conditions; not so where Java refuses the rule.

    Queries have the same rows with and without it.
    """
    from py4j.protocol import Py4JError

    try:
        experimental = spark._jsparkSession.experimental()
        rules = experimental.extraOptimizations().appended(_new_rule(spark))
        getattr(experimental, "extraOptimizations_$eq")(rules)
    except (Py4JError, TypeError) as error:  # a TypeError where a class is missing
        log.warning("columns and conditions are not pushed down to topics: %s", error)


def _new_rule(spark: "SparkSession") -> Any:
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(files("goqueue.spark.pushdown").joinpath(_SOURCE).read_text("utf-8"))
    given = (
        jvm.java.util.HashSet(_java_list(jvm, _FORMATS)),
        PUSHES_FILTERS,
        _java_list(jvm, _CHEAP_COLUMNS),
    )
    arguments = gateway.new_array(jvm.java.lang.Object, len(given))
    for index, each in enumerate(given):
        arguments[index] = each
    return compiler.getClassLoader().loadClass(_CLASS).getConstructors()[0].newInstance(arguments)


def _java_list(jvm: Any, words: Iterable[str]) -> Any:
    found = jvm.java.util.ArrayList()
    for word in words:
        found.add(word)
    return found
