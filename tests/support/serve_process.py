"""`okibi serve` as a user runs it: a process of its own, found by what it prints."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import psutil

_URL = re.compile(r"at (http://\S+) after")


class ServeProcess:
    """A running `okibi serve`."""

    def __init__(self, model: Path | str, *flags: str, **environment: str) -> None:
        command = [sys.executable, "-m", "okibi", "serve", str(model), "--port", "0", *flags]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OKIBI_API_KEY": "", **environment},
        )
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = ""

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)

    @property
    def output(self) -> str:
        return "".join(self._lines)

    def wait_until_up(self, timeout_s: float = 90) -> None:
        deadline = time.monotonic() + timeout_s
        while not (match := _URL.search(self.output)):
            assert self._process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.05)
        self.url = match.group(1)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def engine(self) -> psutil.Process:
        (child,) = psutil.Process(self.pid).children()
        return child

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60)

    def openai(self, api_key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=api_key, max_retries=0)

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float = 60) -> int:
        """The exit code, once all output was read."""
        code = self._process.wait(timeout_s)
        self._reader.join(10)
        return code

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def serving(model: Path | str, *flags: str, **environment: str) -> Iterator[ServeProcess]:
    """A server that is up, and gone after the block."""
    process = ServeProcess(model, *flags, **environment)
    try:
        process.wait_until_up()
        yield process
    finally:
        process.kill()


def eventually(check: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Whether `check` comes true in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if check():
            return True
        time.sleep(0.02)
    return check()
