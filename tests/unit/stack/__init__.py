"""The supervisor with stand-in commands: no JVM."""
