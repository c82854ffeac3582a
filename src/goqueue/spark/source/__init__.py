"""Reading topics into Spark."""
