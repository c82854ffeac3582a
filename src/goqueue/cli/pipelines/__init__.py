"""Commands of pipelines on Spark; `exit_codes.py` says how one ends, `show.py` how they stand."""
