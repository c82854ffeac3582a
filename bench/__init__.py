"""Side-by-side measurements of GoQueue and its peers, on one machine, in one run.

`python -m bench quick|full` starts GoQueue and each peer as child processes, drives both with the
same load generator in alternating rounds, and writes ratios to `bench/results/`. The harness is
one thread that owns every child it starts and ends each by its process id; nothing here is
imported by the broker.
"""
