"""`python -m bench.coordinators`: what groups and transactions cost, beside their bars.

Apart from idempotence these measure GoQueue alone: the bars are absolute.
"""
