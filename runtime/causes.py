"""What a failed Spark query says at its root, without Spark's, py4j's and the JVM's wrapping of
it."""

_TRACEBACK = "Traceback (most recent call last):"
_CAUSED_BY = "Caused by: "
_MOST_CHARACTERS = 300


def root_cause(text: str) -> str:
    """The Python error at the end of the last traceback, else the JVM's last cause, else how the
    text begins; one line."""
    _, traceback, after = text.rpartition(_TRACEBACK)
    if traceback:
        found = next(
            (line for line in after.splitlines()[1:] if line and not line[0].isspace()), text
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
