"""The speed layer without a JVM: its registers, start positions, checkpoints and definitions."""
