"""Table services: what rewrites, removes or restores files of a table without changing its rows."""
