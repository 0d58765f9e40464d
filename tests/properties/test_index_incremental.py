"""An index that was kept up to date says what an index built from nothing says."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clipfeed import testing
from clipfeed.index import build_index
from clipfeed.records import VideoIndex

KEYS = [f"{class_name}/{name}.avi" for class_name in ("jump", "run") for name in ("a", "b", "v_run_g01_c01")]

steps = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["short", "long", "broken", "gone", "build"])),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("videos")
    lengths = {"short": 5, "long": 9}
    return {
        "broken": b"no video",
        **{
            name: testing.write_numbered_video(folder / f"{name}.avi", num_frames=length, size=(48, 64)).read_bytes()
            for name, length in lengths.items()
        },
    }


def facts_of(index: VideoIndex) -> tuple[object, ...]:
    rows = [(record.key, record.label, record.group, record.mtime_ns, record.info) for record in index.records]
    return rows, index.class_names, index.failures


@settings(max_examples=15, deadline=None)
@given(steps=steps)
def test_updating_equals_building_anew(contents: dict[str, bytes], steps: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, store = Path(folder, "data"), Path(folder, "store")
        (root / "walk").mkdir(parents=True)
        (root / "walk" / "always.avi").write_bytes(contents["short"])
        for time_s, (key, step) in enumerate(steps, 1):
            path = root / key
            path.parent.mkdir(exist_ok=True)
            if step == "build":
                build_index(root, index=store)
            elif step == "gone":
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(contents[step])
                os.utime(path, (time_s, time_s))
        kept = build_index(root, index=store)
        assert facts_of(kept) == facts_of(build_index(root, index=Path(folder, "fresh")))
        assert len({record.row for record in kept.records}) == len(kept)
