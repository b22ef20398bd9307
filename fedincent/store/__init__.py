"""The store: finished and half-done runs as files, found by what can change their numbers."""
