"""Topics archived as Delta tables, and archive and live log as one."""
