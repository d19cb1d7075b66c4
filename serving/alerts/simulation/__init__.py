"""What a rule calls for over days that have been, and how that differs from what was told."""
