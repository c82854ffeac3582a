"""Topics, their partitions, and settings of all that has any."""
