"""Tells readers which columns and conditions a query has, by a rule in Spark's optimizer.

Spark 4.3 pushes no columns to Python sources. It pushes conditions, but keeps what a reader has
planned for them at the frame, where every other query of that frame takes it for its own:
`frame.where("offset < 5")`, once it has run, leaves `frame.count()` with the same few rows. So
Spark's own pushing is not used. The rule gives each scan a source of its own instead.
"""
