"""Write the requirements*.lock files from the ranges in pyproject.toml.

Run with the Python that the project supports least (`make lock`). pip resolves, this only keeps
name and version: the accelerator packages of a CUDA build of torch are left out, because torch
itself pins them and a CPU machine must not download them.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ACCELERATOR = re.compile(r"^(nvidia-|cuda-|triton$)")
HEADER = "# Written by `make lock` from pyproject.toml; do not edit.\n"


def resolve(requirements: list[str]) -> dict[str, str]:
    """Versions of `requirements` and everything they need, by normalised name."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
    command += ["--ignore-installed", "--report", "-", *requirements]
    report = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    pins: dict[str, str] = {}
    for item in json.loads(report)["install"]:
        name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
        if not ACCELERATOR.match(name):
            pins[name] = item["metadata"]["version"].split("+")[0]
    return pins


def write(name: str, pins: dict[str, str]) -> None:
    lines = [f"{package}=={version}\n" for package, version in sorted(pins.items())]
    (ROOT / name).write_text(HEADER + "".join(lines))


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    runtime = resolve([*project["dependencies"], *extras["build"]])
    write("requirements.lock", runtime)
    held = [f"{name}=={version}" for name, version in runtime.items()]
    for extra in ("native", "dev"):
        added = resolve([*held, *extras[extra]])
        write(
            f"requirements-{extra}.lock",
            {name: version for name, version in added.items() if name not in runtime},
        )


if __name__ == "__main__":
    main()
