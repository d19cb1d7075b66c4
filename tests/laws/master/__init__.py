"""Laws: the master dataset."""
