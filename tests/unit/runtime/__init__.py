"""What every process shares."""
