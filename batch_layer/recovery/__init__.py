"""What brings views, registers and logs back after a loss, from the master dataset alone."""
