"""Stock movements and calls: pure parts, no JVM."""
