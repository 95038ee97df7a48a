"""The harness lane: agentx-harness, a client that okibi did not write, against the default model.

`okibi test --lane harness` runs it. The first run installs the client into `.venv.agentx`.
"""

import pytest

from benchmarks.harness.run_agentx import main
from okibi.launch.model_pull import pull
from tests.support.serve_process import serving


@pytest.mark.harness
@pytest.mark.timeout(3000)
def test_agentx_is_served_without_an_error_and_counts_as_recorded(tmp_path, capfd):
    model = pull("smollm2")
    with serving(model, "--kv-cache-memory-bytes", "1GiB") as server:
        words = ["--url", server.url, "--gguf", str(model), "--work", str(tmp_path)]
        exit_code = main(words)
    output, errors = capfd.readouterr()
    assert exit_code == 0, errors
    assert "3 traces valid" in output
    assert "one pass: 31 requests, 0 errors, outputs as recorded" in output
    assert "scenario:" in output
