"""Pipelines that people run: a small file, checked before it starts, carried out by Spark.

A definition is read once and never changes. A run belongs to one process, which holds the lock of
the pipeline's state folder and alone writes there; everybody else only reads what it wrote, or
leaves a request to stop. Nothing here imports Spark before a run or a check needs it.
"""
