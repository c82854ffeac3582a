"""What a session's planner is taught about GoQueue's sources, in Java that is compiled there.

`PushDown.java` tells readers which columns and conditions a query has. Spark 4.3 pushes no columns
to Python sources. It pushes conditions, but keeps what a reader has planned for them at the frame,
where every other query of that frame takes it for its own: `frame.where("offset < 5")`, once it has
run, leaves `frame.count()` with the same few rows. So Spark's own pushing is not used. The rule
gives each scan a source of its own instead.

`ArrowReading.java` hands Spark the columns that readers send, where it would make rows of them.
"""
