"""Commands of one broker: run it, its settings, its folder while it is stopped, its backups."""
