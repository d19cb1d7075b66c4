"""Processor time and memory of a job: of its JVM, and of all its Python processes together."""

import shutil
import subprocess

import psutil


def job_memory(job: psutil.Process) -> dict[str, float]:
    """MiB of memory: `jvm`, and `python`, which is all Python processes together."""
    mib = {"jvm": 0.0, "python": 0.0}
    for process in [job, *job.children(recursive=True)]:
        try:
            mib["jvm" if process.name() == "java" else "python"] += (
                process.memory_info().rss / 2**20
            )
        except psutil.NoSuchProcess:
            continue
    return mib


def measure_live_heap(job: psutil.Process) -> float | None:
    """MiB of live objects in the job's JVM after a full collection.

    None if it has no JVM, or Java's tools are missing. The memory of a process grows for as long as
    Java sees no need to collect; the live heap does not.
    """
    tool = shutil.which("jcmd")
    processes = [job, *job.children(recursive=True)]
    javas = [process for process in processes if process.name() == "java"]
    if tool is None or not javas:
        return None
    command = [tool, str(javas[0].pid), "GC.class_histogram"]
    histogram = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    # The last line is the total of all classes: `Total`, objects, bytes.
    return int(histogram.split()[-1]) / 2**20


def process_cpu(process: psutil.Process | None) -> float:
    """Processor seconds of a process and its ended children."""
    assert process is not None
    times = process.cpu_times()
    # Ended children are included: Spark ends idle workers, and their processor time counts.
    return float(times.user + times.system + times.children_user + times.children_system)


def job_cpu(job: psutil.Process) -> dict[str, float]:
    """Processor seconds: `jvm`, and `python`, which is all Python processes together."""
    used = {"jvm": 0.0, "python": 0.0}
    for process in [job, *job.children(recursive=True)]:
        used["jvm" if process.name() == "java" else "python"] += process_cpu(process)
    return used
