"""Forms in which stock documents come whole, a file each."""
