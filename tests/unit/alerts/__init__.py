"""What alerts are made of, function by function."""
