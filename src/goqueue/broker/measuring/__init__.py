"""What the broker and its doors count and time, for whoever shows it.

Histograms and counts belong to whoever adds to them and live as long as the broker. Event loop
only, but for the flush times, which worker threads add under a lock. Figures of groups and queues
are not kept: they are read from the coordinators' machines when asked for, one at a time, so that
the reader can give way to other work in between.
"""
