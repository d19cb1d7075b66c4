"""What the parts promise each other, checked on the real parts."""
