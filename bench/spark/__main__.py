"""`python -m bench.spark`."""

from bench.spark.run import main

main()
