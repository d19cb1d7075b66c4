"""Laws: what holds for every history, searched by Hypothesis; no JVM, no service."""
