"""Root cause of a failed Spark query, without the wrapping of Spark, py4j and the JVM."""

# Spark quotes a worker's traceback within that of py4j, and that within the JVM's: the last one in
# the text is the original.
_TRACEBACK = "Traceback (most recent call last):"
_CAUSED_BY = "Caused by: "
_MAX_CHARACTERS = 300


def root_cause(text: str) -> str:
    """The root cause in the text, as one line.

    It is the Python error at the end of the last traceback, else the JVM's last cause, else the
    beginning of the text.
    """
    _, traceback, after = text.rpartition(_TRACEBACK)
    if traceback:
        lines = filter(None, after.splitlines()[1:])
        found = next((line for line in lines if not line[0].isspace()), text)
    else:
        _, marker, cause = f"\n{text}".rpartition(f"\n{_CAUSED_BY}")
        found = cause.partition("\n")[0] if marker else text
    return " ".join(found.split())[:_MAX_CHARACTERS]
