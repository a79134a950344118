"""Which interpreter runs a loader: feedline's is the one that make builds, a peer gets a virtual environment.

A peer's environment is `.venvs/bench-<loader>` in the checkout, made from `requirements/<loader>.txt`. Those
files list every package, so pip is told not to resolve: the same versions everywhere, and nothing unneeded.
"""
from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import debian

HERE = Path(__file__).parent
ROOT = HERE.parent


class NoEnvironment(Exception):
    """A loader's interpreter cannot be had; its cells are reported as failed."""


def interpreter(loader: str, feedline_python: Path | None) -> Path:
    requirements = HERE / "requirements" / f"{loader}.txt"
    if requirements.exists():
        return peer(loader, requirements)
    python = feedline_python or ROOT / ".venv" / "bin" / "python"
    if not python.exists():
        raise NoEnvironment(f"no {os.path.relpath(python, ROOT)}: run make first, or name one with --python")
    return python


def peer(loader: str, requirements: Path) -> Path:
    """The interpreter of a peer's environment, made anew whenever its pins have changed."""
    folder = ROOT / ".venvs" / f"bench-{loader}"
    python, stamp = folder / "bin" / "python", folder / "requirements.sha256"
    lines = requirements.read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#") or line.startswith(("# debian:", "# beside:"))]
    wanted = hashlib.sha256("\n".join(pins).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"making {folder.relative_to(ROOT)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)
    (folder.parent / ".gitignore").write_text("*\n")
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        if packages := named("debian", lines):
            debian.unpack(packages, folder / "debian")
        for other in named("beside", lines):
            borrow(peer(other, requirements.with_name(f"{other}.txt")), python)
        install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "-r", requirements]
        subprocess.run(install, check=True, env=debian.to_build(folder / "debian", HERE / "build" / loader))
    except (subprocess.CalledProcessError, FileNotFoundError) as e:
        raise NoEnvironment(f"could not make {folder.relative_to(ROOT)}: {e}") from e
    stamp.write_text(wanted)
    return python


def named(what: str, lines: list[str]) -> list[str]:
    """The words behind `# what:` in a file of requirements."""
    return [word for line in lines if line.startswith(f"# {what}: ") for word in line.split()[2:]]


def borrow(other: Path, python: Path) -> None:
    """Lets an environment see the packages of another one, behind its own."""
    def packages(interpreter: Path) -> Path:
        return next((interpreter.parent.parent / "lib").glob("python3*/site-packages"))
    (packages(python) / "beside.pth").write_text(f"{packages(other)}\n")
