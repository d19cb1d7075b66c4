"""The consume-transform-produce loop of all processors, with its guarantee as a setting."""
