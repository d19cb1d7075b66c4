"""The speed layer without a JVM: its registers, handover records, checkpoints and definitions."""
