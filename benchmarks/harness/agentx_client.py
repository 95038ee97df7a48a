"""The agentx-harness client in its own environment: install, validate traces, run.

The harness pins old versions of what okibi uses, so it never shares okibi's environment. Each run
is a child process with a bounded time; no run may reach a model hub.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REQUIREMENT = "agentx-harness==1.0.12"
_OFFLINE_BREAKS = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""With these set the harness cannot load a tokenizer from a local path."""

_VALIDATE = """
import json, sys
from pathlib import Path
from aiperf.dataset.loader.weka_trace_models import WekaTrace
for name in sys.argv[1:]:
    WekaTrace.model_validate(json.loads(Path(name).read_bytes()))
print(len(sys.argv) - 1, "traces valid")
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What a run replays, and against what."""

    url: str
    model: str
    tokenizer: Path
    traces: Path


class AgentxClient:
    """One installed harness."""

    def __init__(self, environment: Path) -> None:
        self._bin = environment / "bin"

    @classmethod
    def install(cls, environment: Path) -> AgentxClient:
        """Make the environment unless it is there; takes some minutes the first time."""
        if not (environment / "bin" / "agentx").exists():
            print(f"installing {REQUIREMENT} into {environment} (some minutes, once)", flush=True)
            subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
            pip = [str(environment / "bin" / "pip"), "install", "--quiet", REQUIREMENT]
            subprocess.run(pip, check=True)
        return cls(environment)

    def validate(self, traces: Path) -> None:
        """Hold every trace against the harness's own schema; raises CalledProcessError."""
        files = [str(file) for file in sorted(traces.glob("*.json"))]
        subprocess.run([str(self._bin / "python"), "-c", _VALIDATE, *files], check=True)

    def run_one_pass(self, target: Target, out: Path, num_sessions: int) -> None:
        """Every session once, no scenario, no warmup, no cache-bust: counts can be exact."""
        options = {
            "--endpoint-type": "chat",
            "--num-conversations": str(num_sessions),
            "--concurrency": str(num_sessions),
            "--extra-inputs": "ignore_eos:true",
            "--random-seed": "7",
        }
        flags = ["--streaming", "--use-server-token-count", "--no-gpu-telemetry"]
        self._run("aiperf", target, out, [*flags, *_flat(options)])

    def run_scenario(self, target: Target, out: Path, duration_s: int) -> None:
        """The AgentX scenario, cut short; its results are never valid submissions."""
        options = {
            "--endpoint": "/v1/chat/completions",
            "--concurrency": "2",
            "--benchmark-duration": str(duration_s),
            "--warmup-requests-per-lane": "2",
            "--benchmark-grace-period": "30",
            "--export-level": "raw",
        }
        self._run("agentx", target, out, ["--unsafe-override", *_flat(options)])

    def _run(self, program: str, target: Target, out: Path, options: list[str]) -> None:
        out.mkdir(parents=True)
        common = {
            "--url": target.url,
            "--model": target.model,
            "--tokenizer": str(target.tokenizer),
            "--custom-dataset-type": "weka_trace",
            "--input-file": str(target.traces),
            "--output-artifact-dir": str(out),
            "--ui": "none",
        }
        command = [str(self._bin / program), "profile", *_flat(common), *options]
        log = out.with_suffix(".log")
        with log.open("wb") as stream:
            done = subprocess.run(
                command,
                env=_environment(out.parent),
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=900,
                check=False,
            )
        if done.returncode != 0:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
            raise RuntimeError(f"{program} ended with {done.returncode}; {log} ends:\n{tail}")


def _flat(options: dict[str, str]) -> list[str]:
    return [word for pair in options.items() for word in pair]


def _environment(work: Path) -> dict[str, str]:
    kept = {name: v for name, v in os.environ.items() if name not in _OFFLINE_BREAKS}
    own = {
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_COLOR": "1",
        "AIPERF_DATASET_MMAP_CACHE_DIR": str(work / "mmap-cache"),
    }
    return {**kept, **own}
