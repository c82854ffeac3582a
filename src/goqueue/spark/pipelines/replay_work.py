"""The work of a replay: part by part, each a transaction of its own, no faster than asked."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.pipelines.kinds.kind import RunContext
from goqueue.spark.pipelines.progress import Progress, now_ms
from goqueue.spark.pipelines.replay_plan import ReplayPlan
from goqueue.spark.pipelines.replay_records import ReplayRecords

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A part costs a Spark job of some tenths of a second, and a stop waits for it.
_PART_OFFSETS_MAX: Final = 500_000
# With a pace, a part has what may be sent in this time, and goes out at once.
_PART_SECONDS: Final = 1.0
# Where a filter lets little through, parts may become larger, but not all of a sudden.
_GROWTH: Final = 2
_SHOWN_RECORDS: Final = 3


def replay(records: ReplayRecords, context: RunContext) -> None:
    path = context.state_folder / "replay.json"
    request = _request(records)
    plan = ReplayPlan.load(path, request)
    if plan is None:
        plan = ReplayPlan.begin(request, records.ranges())
        plan.save(path)
    else:
        context.say(f"going on: {plan.sent} records were sent, {plan.left} offsets are left")
    size = _first_size(records)
    was_pending = bool(plan.pending)
    started, sent_before = time.monotonic(), plan.sent
    while not plan.is_done and not context.stop_requested():
        if not plan.pending:
            plan.take_part(size)
            plan.save(path)
        offsets = sum(end - start for start, end in plan.pending.values())
        sent = _send(records, plan, context, is_again=was_pending)
        was_pending = False
        number = plan.part_number
        plan.finish_part(sent)
        plan.save(path)
        elapsed = time.monotonic() - started
        total = plan.sent - sent_before
        context.report(
            Progress(
                query=context.definition.name,
                batch_id=number,
                batch_rows=sent,
                rows_per_second=total / elapsed if elapsed else 0.0,
                total_rows=plan.sent,
                lag=plan.left,
                at_ms=now_ms(),
            )
        )
        size = _next_size(records, size, offsets, sent)
        if records.settings.rate is not None and not plan.is_done:
            context.wait(max(0.0, total / records.settings.rate - elapsed))
    if plan.is_done:
        context.say(f"{context.definition.name}: {plan.sent} records sent")


def dry_run(records: ReplayRecords, context: RunContext) -> None:
    """Count and show what would be sent; nothing is written."""
    from pyspark.sql import functions

    ranges = records.ranges()
    looked_at = sum(end - start for start, end in ranges.values())
    rows = records.part(ranges) if ranges else None
    found: list[Any] = []
    if rows is not None:
        found = (
            rows.groupBy("topic", "partition")
            .agg(
                functions.count(functions.lit(1)).alias("records"),
                functions.min("offset").alias("first"),
                functions.max("offset").alias("last"),
                functions.min("timestamp").cast("string").alias("since"),
                functions.max("timestamp").cast("string").alias("until"),
            )
            .orderBy("topic", "partition")
            .collect()
        )
    total = sum(row["records"] for row in found)
    sink = context.definition.sink
    assert sink is not None, "a replay has a sink"
    pace = records.settings.rate
    takes = f", about {total / pace:.0f} s at {pace} per second" if pace and total else ""
    context.say(f"would send {total} of {looked_at} records to {sink.topic}{takes}")
    for row in found:
        context.say(
            f"  {row['topic']}-{row['partition']}: {row['records']} records, offsets "
            f"{row['first']} to {row['last']}, {row['since']} to {row['until']}"
        )
    if rows is not None and total:
        _show_first(rows, context)


def _show_first(rows: "DataFrame", context: RunContext) -> None:
    context.say("the first of them:")
    columns = "topic", "partition", "offset"
    texts = "CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value"
    shown = rows.selectExpr(*columns, *texts).orderBy(*columns).limit(_SHOWN_RECORDS)
    for row in shown.collect():
        place = f"{row['topic']}-{row['partition']} offset {row['offset']}"
        context.say(f"  {place}: key {_cut(row['key'])}, value {_cut(row['value'])}")


def _send(records: ReplayRecords, plan: ReplayPlan, context: RunContext, *, is_again: bool) -> int:
    from pyspark.sql import Observation, functions

    chosen = records.part(plan.pending)
    # A part that the broker has already is not read when it is written again.
    count = chosen.count() if is_again else None
    observed = Observation()
    sent = records.as_sent(chosen).observe(observed, functions.count(functions.lit(1)).alias("n"))
    sink = context.definition.sink
    assert sink is not None, "a replay has a sink"
    known = {
        "transaction.id": f"{context.definition.name}.{plan.id}",
        "transaction.sequence": str(plan.part_number),
    }
    sent.write.format("goqueue").options(**sink.options).options(**known).mode("append").save()
    return int(observed.get["n"]) if count is None else count


def _first_size(records: ReplayRecords) -> int:
    rate = records.settings.rate
    return _PART_OFFSETS_MAX if rate is None else _bounded(int(rate * _PART_SECONDS))


def _next_size(records: ReplayRecords, size: int, offsets: int, sent: int) -> int:
    rate = records.settings.rate
    if rate is None:
        return size
    wanted = rate * _PART_SECONDS
    return _bounded(min(size * _GROWTH, int(wanted * offsets / sent) if sent else size * _GROWTH))


def _bounded(offsets: int) -> int:
    return max(1, min(offsets, _PART_OFFSETS_MAX))


def _request(records: ReplayRecords) -> dict[str, Any]:
    source, sink = records.definition.sources[0], records.definition.sink
    settings = asdict(records.settings)
    del settings["rate"]  # may change on the way
    return {
        **settings,
        "topics": list(source.topics),
        "table": source.table,
        "servers": records.definition.bootstrap_servers,
        "sink": sink.topic if sink is not None else None,
    }


def _cut(text: str | None) -> str:
    if text is None:
        return "null"
    return repr(text if len(text) <= 80 else text[:79] + "…")
