"""The words everything else is written in: names, offsets, record batches, settings, errors.

Imports no other package of GoQueue, owns no state, touches no file, socket or clock.
"""
