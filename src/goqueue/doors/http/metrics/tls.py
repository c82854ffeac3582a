"""TLS: when the certificate ends, and whether new ones were taken."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics.families import Families, counter, gauge
from goqueue.model.measuring.tls import TlsFigures


def read(figures: TlsFigures) -> Families:
    """Takes them down now. A broker without TLS has none."""
    expires_s, reloads = figures.expires_s, figures.reloads
    crl_expires_s, is_stale = figures.crl_expires_s, figures.is_stale
    reload_failures, handshake_failures = figures.reload_failures, figures.handshake_failures

    def families() -> Iterable[Metric]:
        if expires_s is None:
            return
        yield gauge(
            "goqueue_tls_certificate_expiry_timestamp_seconds",
            "When the certificate in use ends, in seconds since 1970.",
            expires_s,
        )
        if crl_expires_s is not None:
            yield gauge(
                "goqueue_tls_crl_expiry_timestamp_seconds",
                "When the list of revoked certificates is out of date, in seconds since 1970.",
                crl_expires_s,
            )
        yield gauge(
            "goqueue_tls_certificate_stale",
            "1 while the files of certificates cannot be used, so that those before still are.",
            int(is_stale),
        )
        yield counter(
            "goqueue_tls_certificate_reloads", "Certificates loaded since the start.", reloads
        )
        yield counter(
            "goqueue_tls_certificate_reload_failures",
            "Tries to load files of certificates that could not be used; each is tried again.",
            reload_failures,
        )
        yield counter(
            "goqueue_tls_handshake_failures",
            "Connections that ended before TLS was agreed on.",
            handshake_failures,
        )

    return families
