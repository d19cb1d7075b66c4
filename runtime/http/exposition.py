"""The text format in which Prometheus reads metrics."""

from collections.abc import Iterable, Mapping

# The labels of a sample by name, and its value.
MetricSample = tuple[Mapping[str, str], float]


def exposition(name: str, kind: str, samples: Iterable[MetricSample]) -> str:
    """A metric of a kind (`gauge`, `counter`) as text, "" without a sample."""
    lines = [f"{name}{_label_text(labels)} {_value_text(value)}" for labels, value in samples]
    return "\n".join([f"# TYPE {name} {kind}", *lines, ""]) if lines else ""


def _value_text(value: float) -> str:
    return "+Inf" if value == float("inf") else f"{value:.15g}"


def _label_text(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escape_label(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
