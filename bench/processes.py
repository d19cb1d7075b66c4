"""Processor time and memory of a job: its JVM, and all its Python processes together."""

import shutil
import subprocess

import psutil


def memory_of(job: psutil.Process) -> dict[str, float]:
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


def live_heap_of(job: psutil.Process) -> float | None:
    """MiB of the objects that the job's JVM still needs, after a full collection; None: it has no
    JVM, or Java's tools are not there.

    What a process occupies grows for as long as Java sees no need to collect; this does not.
    """
    tool = shutil.which("jcmd")
    processes = [job, *job.children(recursive=True)]
    javas = [one for one in processes if one.name() == "java"]
    if tool is None or not javas:
        return None
    command = [tool, str(javas[0].pid), "GC.class_histogram"]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    # The last line is that of all classes: `Total`, objects, bytes.
    return int(told.split()[-1]) / 2**20


def cpu_of(process: psutil.Process | None) -> float:
    """Processor seconds of a process and its ended children."""
    assert process is not None
    times = process.cpu_times()
    # With its ended children: Spark ends workers that are idle, and what they used counts.
    return float(times.user + times.system + times.children_user + times.children_system)


def job_cpu(job: psutil.Process) -> dict[str, float]:
    """Processor seconds: `jvm`, and `python`, which is all Python processes together."""
    used = {"jvm": 0.0, "python": 0.0}
    for process in [job, *job.children(recursive=True)]:
        used["jvm" if process.name() == "java" else "python"] += cpu_of(process)
    return used
