"""What was run: stored, found again, rendered."""
