"""Proofs that share one running loop with the settings as they are shipped, on messages of the
last nine days up to this second."""
