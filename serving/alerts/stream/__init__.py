"""Server-sent events of the topic `alerts`: each once, over any number of broken connections."""
