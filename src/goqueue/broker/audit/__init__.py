"""Runs the audit: gathers what is noted, and writes it to files and to a topic.

Purpose: `audit` is the room, to which services tell what callers did, and were refused. Whoever
tells never waits and never fails for it: entries go to a bounded queue for each of the two
(`line`), and what does not fit is counted. State: queues and the newest entries, in memory. Notes
may come from any thread; everything else runs on the event loop, files are written in threads.
"""
