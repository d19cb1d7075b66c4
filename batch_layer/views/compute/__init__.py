"""How a rebuild computes rows from the master dataset."""
