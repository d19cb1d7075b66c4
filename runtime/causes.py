"""What a failed Spark query says at its root, without what Spark, py4j and the JVM wrap it in."""

# Spark quotes a worker's traceback within that of py4j, and that within the JVM's: what comes last
# was there first.
_TRACEBACK = "Traceback (most recent call last):"
_CAUSED_BY = "Caused by: "
_MOST_CHARACTERS = 300


def root_cause(text: str) -> str:
    """What the text says at its root, as one line.

    The Python error at the end of the last traceback, else the JVM's last cause, else how the text
    begins.
    """
    _, traceback, after = text.rpartition(_TRACEBACK)
    if traceback:
        lines = after.splitlines()[1:]
        found = next(
            (line for line in lines if line and not line[0].isspace()),
            text,
        )
    else:
        found = next(
            (
                line.removeprefix(_CAUSED_BY)
                for line in reversed(text.splitlines())
                if line.startswith(_CAUSED_BY)
            ),
            text,
        )
    return " ".join(found.split())[:_MOST_CHARACTERS]
