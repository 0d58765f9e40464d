"""How long a real `fit` waited is told on JAX and PyTorch too; `test_bench.py` asks on TensorFlow."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from clipfeed.testing import make_tree


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_bench_says_how_long_fit_waited(backend, tmp_path):
    missing = [name for name in ("keras", backend) if importlib.util.find_spec(name) is None]
    if missing and os.environ.get("CLIPFEED_FAIL_WITHOUT_EXTRAS") != "1":
        pytest.skip(f"not installed: {', '.join(missing)}")
    make_tree(tmp_path / "videos", classes=("run", "walk"), sources_per_class=3, clips_per_source=2, num_frames=12)
    words = ["--num-frames", "4", "--image-size", "16", "16", "--batch-size", "4", "--num-passes", "1", "--json"]
    env = os.environ | {"KERAS_BACKEND": backend, "KERAS_HOME": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-m", "clipfeed", "bench", str(tmp_path / "videos"), *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    facts = json.loads(done.stdout)
    assert facts["fit_missing"] is None
    assert [fit["name"] for fit in facts["fits"]] == ["decoding", "cache"]
    for fit in facts["fits"]:
        assert fit["backend"] == backend
        assert fit["num_steps"] == 24
        assert fit["first_wait_seconds"] > 0
        assert 0 < fit["later_wait_seconds"] < fit["seconds"]
