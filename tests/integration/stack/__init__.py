"""The stack with its real parts."""
