"""Spans to an OpenTelemetry collector, Jaeger or whatever else takes OTLP over HTTP."""

import logging
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from goqueue import __version__
from goqueue.broker.tracing.export import ExportFailed, ExportThread
from goqueue.model.errors import InvalidConfig
from goqueue.model.tracing.spans import Event, Span

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanKind

SERVICE_NAME: Final = "goqueue"
# A receiver that does not answer holds up only the thread that sends.
TIMEOUT_SECONDS: Final = 5.0


def otlp_export(endpoint: str, *, node_id: int, cluster_id: Callable[[], str]) -> ExportThread:
    sender: _Sender | None = None

    def write(spans: Sequence[Span]) -> None:
        nonlocal sender
        if sender is None:
            # Here, in the thread and with the first span: the library takes a while to import.
            sender = _Sender(endpoint, node_id, cluster_id())
        sender.send(spans)

    def interrupt() -> None:
        if sender is not None:
            sender.give_up()

    return ExportThread("otlp", write, interrupt=interrupt)


def check_endpoint(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidConfig(
            "tracing.otlp.endpoint: what is given is not a URL; give one such as "
            "http://localhost:4318/v1/traces"
        )
    if not _is_installed():
        raise InvalidConfig(
            "tracing.otlp.endpoint: sending spans takes packages that are not installed; run "
            "`pip install 'goqueue[otlp]'`, or leave the setting empty"
        )


def _is_installed() -> bool:
    """Looks for the packages without the half second that loading them takes."""
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


class _LastWords(logging.Handler):
    """Keeps what the library said last: it complains at every retry, we do so now and then."""

    text = "no reason given"

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


class _Sender:
    def __init__(self, endpoint: str, node_id: int, cluster_id: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource

        parts = urlsplit(endpoint)
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        # Where tokens may stand; the library tells of the URL when it fails, and of each request
        # when it is asked to say everything.
        self._hidden = [each for each in (parts.query, parts.username, parts.password) if each]
        logging.getLogger("urllib3").setLevel(logging.INFO)
        self._last_words = _LastWords()
        library = logging.getLogger(OTLPSpanExporter.__module__.rpartition(".")[0])
        library.propagate = False
        library.addHandler(self._last_words)
        self._exporter = OTLPSpanExporter(endpoint=endpoint, timeout=TIMEOUT_SECONDS)
        self._resource = Resource.create(
            {
                "service.name": SERVICE_NAME,
                "service.version": __version__,
                "service.instance.id": str(node_id),
                "goqueue.cluster.id": cluster_id,
            }
        )

    def send(self, spans: Sequence[Span]) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        result = self._exporter.export([_readable(span, self._resource) for span in spans])
        if result is not SpanExportResult.SUCCESS:
            reason = self._last_words.text
            for hidden in self._hidden:
                reason = reason.replace(hidden, "…")
            raise ExportFailed(f"{self._shown} did not take them: {reason}")

    def give_up(self) -> None:
        """End a try that is under way, and all to come."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _readable(span: Span, resource: "Resource") -> "ReadableSpan":
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    def context(span_id: str, *, is_remote: bool) -> SpanContext:
        return SpanContext(
            int(span.trace_id, 16), int(span_id, 16), is_remote, TraceFlags(TraceFlags.SAMPLED)
        )

    failed = span.status == "failed"
    return ReadableSpan(
        span.event,
        context=context(span.span_id, is_remote=False),
        parent=None if span.parent_id is None else context(span.parent_id, is_remote=True),
        resource=resource,
        attributes=attributes_of(span),
        kind=_kind(span.event),
        status=Status(StatusCode.ERROR, span.reason) if failed else Status(StatusCode.UNSET),
        start_time=span.time_us * 1_000,
        end_time=span.end_us * 1_000,
    )


def _kind(event: str) -> "SpanKind":
    from opentelemetry.trace import SpanKind

    if event == Event.PUBLISH_RECEIVED:
        return SpanKind.SERVER
    return SpanKind.INTERNAL


def attributes_of(span: Span) -> dict[str, str | int]:
    """Under the names of OpenTelemetry's conventions for messaging, where there are some."""
    found: dict[str, str | int | None] = {
        "messaging.system": SERVICE_NAME,
        "messaging.destination.name": span.topic,
        "messaging.destination.partition.id": str(span.partition),
        "messaging.kafka.offset": span.offset,
        "messaging.consumer.group.name": span.group,
        "messaging.client.id": span.consumer,
        "goqueue.delivery.count": span.delivery_count,
        "goqueue.reason": span.reason,
        "goqueue.delayed.id": span.delayed_id,
        "goqueue.linked": None if span.linked is None else str(span.linked),
    }
    return {name: value for name, value in found.items() if value is not None}
