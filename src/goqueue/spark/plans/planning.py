"""Teaches a session's planner what GoQueue's sources can do and Spark does not ask of Python."""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.plans.java_classes import NotShipped, compiled, ship
from goqueue.spark.source.filter_bounds import PUSHES_FILTERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_FORMATS: Final = ("goqueue", "goqueue-live-log")
# For queries that want rows and no column, the cheapest first: `count()`.
_CHEAP_COLUMNS: Final = ("partition", "topic", "timestampType", "priority", "offset", "timestamp")


def teach_planner(spark: "SparkSession") -> None:
    """Readers are told columns and conditions, and Spark takes their columns without making rows.

    Queries have the same rows with and without it, as where Java refuses a class.
    """
    from py4j.protocol import Py4JError

    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.jvm
    experimental = spark._jsparkSession.experimental()
    sources = jvm.java.util.HashSet(_java_list(jvm, _FORMATS))
    reading = jvm.java.util.function.Function.identity()
    try:
        classes = compiled(spark, "ArrowReading")
        ship(spark, classes)
        columns = classes.new(sources)
        strategies = experimental.extraStrategies().appended(columns)
        getattr(experimental, "extraStrategies_$eq")(strategies)
        reading = columns
    except (Py4JError, TypeError, OSError, NotShipped) as error:
        log.warning("Spark makes rows of topics one by one: %s", _reason(error))
    try:
        rule = compiled(spark, "PushDown").new(
            sources, PUSHES_FILTERS, _java_list(jvm, _CHEAP_COLUMNS), reading
        )
        rules = experimental.extraOptimizations().appended(rule)
        getattr(experimental, "extraOptimizations_$eq")(rules)
    except (Py4JError, TypeError) as error:  # a TypeError where a class is missing
        log.warning("columns and conditions are not pushed down to topics: %s", _reason(error))


def _reason(error: Exception) -> str:
    """Without Java's stack."""
    return " ".join(str(error).splitlines()[:2])


def _java_list(jvm: Any, words: Iterable[str]) -> Any:
    found = jvm.java.util.ArrayList()
    for word in words:
        found.add(word)
    return found
