"""`make setup`: the virtual environment, the locked packages, the JVM parts.

Existing parts are kept. It uses the standard library only. Each step checks its own result, so the
next run continues an interrupted one.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[3]
# Any Python may run this file, and no environment with Tally is installed yet.
sys.path.insert(0, str(REPOSITORY))

from ops.local.machine import check_folder, check_java  # noqa: E402
from tally.errors import StackError, TallyError  # noqa: E402

ENVIRONMENT = REPOSITORY / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / "tally-setup"
INPUTS = ("pyproject.toml", "uv.lock", "ops/local/setup/bootstrap.py")
NEEDED_GIGABYTES = 3.0


def main() -> int:
    """Return 0 when everything is in place, else 1 with one line (what, where, fix) on stderr."""
    try:
        stamp = STAMP.read_text() if PYTHON.exists() and STAMP.is_file() else ""
        if stamp != _stamp_text():
            check_java(os.environ)
            check_folder(REPOSITORY, NEEDED_GIGABYTES, "move this clone to another disk")
            _make_environment()
            _install_uv()
            _install_packages()
            STAMP.write_text(_stamp_text())
    except TallyError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    # Run by the new environment, because the JVM parts need its packages.
    for module in ("ops.local.artifacts", "ops.local.setup.jvm_classes"):
        command = [str(PYTHON), "-m", module]
        if code := subprocess.run(command, cwd=REPOSITORY, check=False).returncode:
            return code
    return 0


def _stamp_text() -> str:
    content = b"".join((REPOSITORY / name).read_bytes() for name in INPUTS)
    # The folder is included: the scripts of an environment contain its path, and work only there.
    return hashlib.sha256(content + str(REPOSITORY).encode()).hexdigest()


def _make_environment() -> None:
    if _runs(
        [str(PYTHON), "-c", f"import sys; assert sys.version_info[:2] == {sys.version_info[:2]}"]
    ):
        if not _runs([str(PYTHON), "-m", "pip", "--version"]):
            _run([str(PYTHON), "-m", "ensurepip"], "pip into .venv", quiet=True)
        return
    # Debian splits Python into packages: venv may be installed without ensurepip.
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        raise StackError(
            f"python: {sys.executable} has no venv or ensurepip;"
            f" install them (Debian: apt install {name}-venv)"
        )
    _say(f"Python {sys.version.split()[0]} into .venv")
    _run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], ".venv")


def _install_uv() -> None:
    version, requirement = _read_uv_lock()
    if _runs([str(ENVIRONMENT / "bin" / "uv"), "--version"], expect=f"uv {version} "):
        return
    _say(f"uv {version} into .venv")
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "uv.txt"
        requirements.write_text(requirement)
        pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # uv is the one package that uv does not fetch: its hashes come from the lock too.
        pip += ["--require-hashes", "--no-deps", "-r", str(requirements)]
        _run(pip, "uv")


def _install_packages() -> None:
    _say("packages of uv.lock into .venv")
    uv = [str(ENVIRONMENT / "bin" / "uv"), "sync", "--no-python-downloads", "--python", str(PYTHON)]
    # The lock is used as it is, without a query for newer versions.
    _run([*uv, "--frozen"], "packages")


def _read_uv_lock() -> tuple[str, str]:
    """The version of uv, and its requirement line for pip with a hash for each file."""
    lock: dict[str, Any] = tomllib.loads((REPOSITORY / "uv.lock").read_text("utf-8"))
    package = next(package for package in lock["package"] if package["name"] == "uv")
    hashes = [wheel["hash"] for wheel in package["wheels"]] + [package["sdist"]["hash"]]
    lines = [f"uv=={package['version']}", *(f"  --hash={value}" for value in hashes)]
    return package["version"], " \\\n".join(lines) + "\n"


def _run(command: Sequence[str], what: str, quiet: bool = False) -> None:
    output = subprocess.DEVNULL if quiet else None
    # uv installs into this environment, whatever else is activated.
    environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(ENVIRONMENT)}
    answer = subprocess.run(command, cwd=REPOSITORY, env=environment, stdout=output, check=False)
    if answer.returncode:
        raise StackError(
            f"{what}: not installed (see above);"
            " check the network and run `make setup` again: what is done is kept"
        )


def _runs(command: Sequence[str], expect: str = "") -> bool:
    try:
        return expect in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return False


def _say(text: str) -> None:
    print(f"setup: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
