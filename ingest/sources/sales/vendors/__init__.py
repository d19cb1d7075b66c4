"""Forms in which tills and their servers post receipts, a file each."""
