"""GET /metrics: Prometheus' text format, read from the broker when asked.

A scrape has two steps. On the event loop each module reads what only the loop may look at, in
slices, so that requests in between wait for milliseconds at most. In a thread the figures then
become text. Owns no figures of its own; scrapes run one after another.
"""

from goqueue.doors.http.metrics.exposition import ROUTES, Exposition

__all__ = ["ROUTES", "Exposition"]
