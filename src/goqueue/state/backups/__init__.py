"""Backups, as far as a broker knows of them: what must stay while somebody copies its logs."""
