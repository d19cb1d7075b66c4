"""The one consume-transform-produce loop, with its guarantee as a setting."""
