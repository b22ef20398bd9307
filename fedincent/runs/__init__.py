"""One run, top to bottom."""
