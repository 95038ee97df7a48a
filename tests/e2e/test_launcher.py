"""The launcher `./okibi`, run for real in a made-up clone with a stand-in for Python.

The stand-in answers what the launcher asks of Python, venv and pip, logs each pip call and can be
told to wait or to fail, so that interruptions and races are exact and nothing is downloaded.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("cat", "chmod", "cksum", "cp", "dirname", "env", "find", "grep", "ls", "mkdir", "mv")
TOOLS += ("readlink", "rm", "sh", "sleep", "sort", "touch", "uname", "xargs")
PYTHONS = ("python3.13", "python3.12", "python3.11", "python3")

STAND_IN = """#!/bin/sh
# $STAGE is a folder of switches: version, no-venv, no-native, no-cpu-index, hold, fail.
case "$1 $2" in
  '--version '*) echo "Python $(cat "$STAGE/version").2" ;;
  '-c import sys; print'*) cat "$STAGE/version" ;;
  '-c import ensurepip'*) [ ! -e "$STAGE/no-venv" ] ;;
  '-c import fcntl;'*) exec "$REAL_PYTHON" "$@" ;;
  '-c import okibi._native') [ ! -e "$STAGE/no-native" ] ;;
  '-m venv') mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  '-m pip')
    echo "$@" >>"$STAGE/pip.log"
    while [ -e "$STAGE/hold" ]; do touch "$STAGE/holding"; sleep 0.02; done
    [ ! -e "$STAGE/fail" ] || exit 1
    case "$*" in *--index-url*) [ ! -e "$STAGE/no-cpu-index" ] || exit 1 ;; esac
    case "$*" in *--editable*)
      printf '#!/bin/sh\\nfor word; do echo "<$word>"; done\\n' >"${0%/*}/okibi"
      chmod +x "${0%/*}/okibi" ;;
    esac ;;
  *) echo "unexpected: $*" >&2; exit 99 ;;
esac
"""


class FakeClone:
    """A clone with the real launcher and a stand-in Python, below a folder with a space."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a clone"
        self.stage = folder / "stage"
        self.bin = folder / "bin"
        for each in (self.root / "csrc", self.stage, self.bin):
            each.mkdir(parents=True)
        shutil.copy(ROOT / "okibi", self.root / "okibi")
        for name in ("pyproject.toml", "CMakeLists.txt", "csrc/hash.cpp"):
            (self.root / name).write_text(name)
        for name in ("requirements", "requirements-dev", "requirements-native"):
            (self.root / f"{name}.lock").write_text("torch==2.13.0\n")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
        for name in PYTHONS:
            self.add_tool(name, STAND_IN)
        self.switch("version", "3.11")

    @property
    def venv(self) -> Path:
        return self.root / ".venv"

    def add_tool(self, name: str, script: str = "#!/bin/sh\n") -> None:
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def switch(self, name: str, text: str = "") -> None:
        (self.stage / name).write_text(text)

    def release(self, name: str) -> None:
        (self.stage / name).unlink()

    def start(self, *words: str, script: Path | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(script or self.root / "okibi"), *words],
            cwd="/",
            env={"PATH": str(self.bin), "STAGE": str(self.stage), "REAL_PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, script: Path | None = None) -> tuple[int, str, str]:
        process = self.start(*words, script=script)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def start_and_hold(self, *words: str) -> subprocess.Popen[str]:
        """A launcher that stands still inside its first call of pip."""
        self.switch("hold")
        process = self.start(*words)
        self.wait_for("holding")
        return process

    def wait_for(self, name: str) -> None:
        deadline = time.monotonic() + 30
        while not (self.stage / name).exists():
            assert time.monotonic() < deadline, f"no {name}"
            time.sleep(0.01)
        self.release(name)

    def pip_calls(self) -> list[str]:
        """What pip was asked since the last time, in order."""
        log = self.stage / "pip.log"
        calls = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return calls


@pytest.fixture
def clone(tmp_path: Path) -> FakeClone:
    return FakeClone(tmp_path)


def test_first_use_sets_up_and_later_calls_start_at_once(clone: FakeClone):
    code, out, err = clone.run("serve", "--model", "two words", "")
    assert (code, out) == (0, "<serve>\n<--model>\n<two words>\n<>\n")
    assert "setting up .venv with Python 3.11" in err
    calls = clone.pip_calls()
    assert any("requirements.lock" in call for call in calls)
    assert not any("requirements-dev.lock" in call for call in calls)

    assert clone.run("version") == (0, "<version>\n", "")
    assert clone.pip_calls() == []


def test_test_adds_the_test_tools_once(clone: FakeClone):
    clone.run("version")
    clone.pip_calls()
    assert clone.run("test")[:2] == (0, "<test>\n")
    (call,) = clone.pip_calls()
    assert call.endswith("requirements-dev.lock")
    assert clone.run("test") == (0, "<test>\n", "")
    assert clone.pip_calls() == []


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml", "csrc/hash.cpp"])
def test_a_changed_input_sets_up_again(clone: FakeClone, name: str):
    clone.run("version")
    clone.pip_calls()
    (clone.root / name).write_text("torch==2.13.1\n")
    assert clone.run("version")[0] == 0
    assert any("--editable" in call for call in clone.pip_calls())


def test_a_moved_clone_sets_up_again(clone: FakeClone):
    clone.run("version")
    clone.root = clone.root.rename(clone.root.with_name("moved"))
    clone.pip_calls()
    assert clone.run("version")[:2] == (0, "<version>\n")
    assert clone.pip_calls() != []


def test_it_works_through_symbolic_links(clone: FakeClone, tmp_path: Path):
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "first").symlink_to("../a clone/okibi")
    (tmp_path / "second").symlink_to(tmp_path / "links" / "first")
    assert clone.run("version", script=tmp_path / "second")[:2] == (0, "<version>\n")
    assert clone.venv.is_dir()


@pytest.mark.parametrize("words", [("version",), ("test",)])
def test_a_failed_installation_does_not_count_as_done(clone: FakeClone, words: tuple[str]):
    clone.switch("fail")
    code, out, err = clone.run(*words)
    assert (code, out) == (2, "")
    assert "run the same command to try again" in err

    clone.release("fail")
    clone.pip_calls()
    assert clone.run(*words)[:2] == (0, f"<{words[0]}>\n")
    assert clone.pip_calls() != []


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_set_up_is_thrown_away(clone: FakeClone, signum: signal.Signals):
    process = clone.start_and_hold("version")
    (clone.venv / "half-a-package").touch()
    os.killpg(process.pid, signum)
    process.communicate(timeout=60)
    assert process.returncode != 0
    clone.release("hold")

    code, out, err = clone.run("version")
    assert (code, out) == (0, "<version>\n")
    assert "removing an unfinished set-up" in err
    assert not (clone.venv / "half-a-package").exists()
    assert not list(clone.root.glob(".venv.old.*"))


def test_two_at_once_set_up_once(clone: FakeClone):
    first = clone.start_and_hold("version")
    second = clone.start("version")
    assert second.stderr is not None
    assert "waiting for another set-up" in second.stderr.readline()
    clone.release("hold")
    assert first.communicate(timeout=60)[0] == second.communicate(timeout=60)[0] == "<version>\n"
    assert sum("--editable" in call for call in clone.pip_calls()) == 1


def test_a_pip_that_outlives_its_launcher_is_waited_for(clone: FakeClone):
    first = clone.start_and_hold("version")
    first.kill()
    second = clone.start("version")
    assert second.stderr is not None
    assert "waiting for another set-up" in second.stderr.readline()
    assert second.poll() is None
    clone.release("hold")
    assert second.communicate(timeout=60)[0] == "<version>\n"


def test_a_vanished_python_is_replaced(clone: FakeClone):
    clone.run("version")
    (clone.venv / "bin" / "python").unlink()
    assert clone.run("version")[:2] == (0, "<version>\n")


def test_python_too_old(clone: FakeClone):
    clone.switch("version", "3.9")
    code, _, err = clone.run("version")
    assert code == 2
    assert err == "okibi: found Python 3.9.2, but okibi needs Python 3.11 or newer\n"


def test_no_python_at_all(clone: FakeClone):
    for name in PYTHONS:
        (clone.bin / name).unlink()
    code, _, err = clone.run("version")
    assert (code, err) == (2, "okibi: no python3 found; install Python 3.11 or newer\n")


def test_a_missing_venv_module_names_its_package(clone: FakeClone):
    clone.switch("no-venv")
    code, _, err = clone.run("version")
    assert code == 2
    assert "apt install python3.11-venv" in err
    assert len(err.splitlines()) == 1
    assert not clone.venv.exists()


def test_without_a_compiler_nothing_is_built_and_one_line_says_so(clone: FakeClone):
    _, _, err = clone.run("version")
    assert err.count("no C++ compiler found: using pure Python\n") == 1
    calls = clone.pip_calls()
    assert any("--editable" in call and "wheel.cmake=false" in call for call in calls)
    assert not any("requirements-native.lock" in call for call in calls)


def test_a_compiler_that_appears_later_is_used(clone: FakeClone):
    clone.run("version")
    clone.pip_calls()
    clone.add_tool("c++")
    code, _, err = clone.run("version")
    assert code == 0
    assert "pure Python" not in err
    assert any("requirements-native.lock" in call for call in clone.pip_calls())


def test_a_build_that_fails_is_named(clone: FakeClone):
    clone.add_tool("c++")
    clone.switch("no-native")
    code, _, err = clone.run("version")
    assert code == 0
    assert err.count("using pure Python\n") == 1


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has an NVIDIA GPU")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the default wheels are CPU wheels")
def test_without_a_gpu_the_cpu_wheels_are_tried_once(clone: FakeClone):
    clone.switch("no-cpu-index")
    code, _, err = clone.run("version")
    assert code == 0
    assert "the default one will do" in err
    calls = clone.pip_calls()
    tries = [call for call in calls if "--index-url" in call]
    assert len(tries) == 1
    assert tries[0].endswith("torch==2.13.0")
    assert "--retries 0" in tries[0]
    assert calls.index(tries[0]) == 0
