"""TLS: when the certificate ends, and whether new ones were taken."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics.families import Families, counter, gauge
from goqueue.model.measuring.tls import TlsFigures


def read(figures: TlsFigures) -> Families:
    """Takes them down now. A broker without TLS has none."""
    expires_s, reloads = figures.expires_s, figures.reloads
    reload_failures, handshake_failures = figures.reload_failures, figures.handshake_failures

    def families() -> Iterable[Metric]:
        if expires_s is None:
            return
        yield gauge(
            "goqueue_tls_certificate_expiry_timestamp_seconds",
            "When the certificate in use ends, in seconds since 1970.",
            expires_s,
        )
        yield counter(
            "goqueue_tls_certificate_reloads", "Certificates loaded since the start.", reloads
        )
        yield counter(
            "goqueue_tls_certificate_reload_failures",
            "New files of certificates that could not be used, so that the old ones still are.",
            reload_failures,
        )
        yield counter(
            "goqueue_tls_handshake_failures",
            "Connections that ended before TLS was agreed on.",
            handshake_failures,
        )

    return families
