"""The words everything else is written in: names, offsets, record batches, settings, errors.

Imports nothing of ours, owns no state, touches no file, socket or clock.
"""
