"""The topic `alerts` as server-sent events: each once, over any number of broken connections."""
