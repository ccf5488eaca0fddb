"""Undoing what died: rollback, recover, and the sweep of leftovers."""
