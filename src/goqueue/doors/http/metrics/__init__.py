"""GET /metrics: Prometheus' text format, made of the broker's figures when asked.

Owns no figures of its own. They become text in a thread; scrapes run one after another.
"""

from goqueue.doors.http.metrics.exposition import ROUTES, Exposition

__all__ = ["ROUTES", "Exposition"]
