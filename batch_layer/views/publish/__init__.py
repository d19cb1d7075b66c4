"""How a generation is written, checked and published."""
