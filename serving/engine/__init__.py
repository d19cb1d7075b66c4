"""The query engine: answers and their explanations."""
