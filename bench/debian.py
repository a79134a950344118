"""Debian packages that a peer's environment needs beside its wheels: unpacked into a folder of it, not installed.

A line `# debian: package package` in the peer's requirements names them; what they depend on comes along, unless this
machine has it. The libraries are found through LD_LIBRARY_PATH, headers through the folder's usr/include.
"""
from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

EDGES = ["--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"]


def unpack(packages: list[str], folder: Path) -> None:
    """Raises CalledProcessError where apt or the packages cannot be had."""
    listed = _run(["apt-cache", "depends", "--recurse", *EDGES, *packages])
    names = {line for line in listed.splitlines() if re.match(r"[a-z0-9]", line)}
    installed = set(_run(["dpkg-query", "-W", "-f", "${binary:Package}\n"]).replace(":amd64", "").split())
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as downloads:
        _run(["apt-get", "download", "-qq", *sorted(names - installed)], cwd=downloads)
        for package in sorted(Path(downloads).glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(folder)])


def libraries(folder: Path) -> list[str]:
    """Every folder with shared libraries in it: some packages keep theirs apart."""
    found = {library.parent for library in (folder / "usr" / "lib").rglob("*.so*")} if folder.exists() else set()
    return sorted(map(str, found))


def environment(python: Path) -> dict[str, str]:
    """The variables with which an interpreter of an environment is started."""
    paths = libraries(python.parent.parent / "debian")
    if not paths:
        return dict(os.environ)
    before = os.environ.get("LD_LIBRARY_PATH")
    return os.environ | {"LD_LIBRARY_PATH": ":".join([*paths, *([before] if before else [])])}


def to_build(folder: Path, helps: Path) -> dict[str, str]:
    """The variables with which a wheel is built from source: `helps` has what the packages lack."""
    if not folder.exists():
        return dict(os.environ)
    described = [helps, *folder.glob("usr/lib/*/pkgconfig")]
    return os.environ | {"PKG_CONFIG_PATH": ":".join(map(str, described)), "PKG_CONFIG_SYSROOT_DIR": str(folder),
                         "CFLAGS": f"-I{helps}", "LIBRARY_PATH": ":".join(libraries(folder))}


def _run(command: list[str], cwd: str | None = None) -> str:
    return subprocess.run(command, check=True, cwd=cwd, stdout=subprocess.PIPE, text=True).stdout
