"""The log on disk: a data directory of partition logs, each a row of segments.

Owns everything under the data directory's `logs/` folder and the directory's lock, format and
clean-shutdown marker. Blocking file code, no asyncio: one thread (the event loop's) appends, rolls
and applies retention, while any number of worker threads read and flush. What readers share with
the appender (segment list, sizes, indexes) only grows or is replaced whole, never edited in place.
"""
