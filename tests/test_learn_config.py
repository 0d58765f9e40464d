"""What a run was asked to do, checked, written down and read back."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import clipfeed as cf
from clipfeed.learn import RunConfig, TrainOptions
from clipfeed.learn.config import describe_changes


def make_config(**clips: object) -> RunConfig:
    return RunConfig(
        directory="/videos",
        clips=cf.ClipSpec(**clips),
        options=TrainOptions(),
        split_source="split",
        backend="tensorflow",
        versions={"clipfeed": "0"},
    )


@pytest.mark.parametrize(
    "sampling",
    ["uniform", "stride", cf.Segments(), cf.Dense(frame_stride=3), cf.AtRate(fps=Fraction(30000, 1001)), cf.Uniform()],
)
def test_every_policy_survives_being_written_down(sampling: object) -> None:
    config = make_config(sampling=sampling, image_size=(48, 64), short_videos="wrap")
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_a_config_from_before_frames_were_kept_is_of_frames_as_they_were_decoded() -> None:
    document = make_config().to_json()
    assert document.pop("codec") == "raw"
    assert RunConfig.from_json(document) == make_config()
    with pytest.raises(ValueError, match="codec='png'"):
        RunConfig.from_json(document | {"codec": "png"})


def test_a_policy_that_cannot_be_written_down_is_refused() -> None:
    class Own(cf.Uniform):
        pass

    with pytest.raises(ValueError, match="Own"):
        make_config(sampling=Own()).to_json()


def test_another_version_of_the_format_is_refused() -> None:
    document = make_config().to_json() | {"format_version": 99}
    with pytest.raises(ValueError, match="format_version=99: expected 1"):
        RunConfig.from_json(document)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "resnet"),
        ("epochs", 0),
        ("batch_size", 0),
        ("batch_size", 2.5),
        ("learning_rate", 0),
        ("learning_rate", float("nan")),
        ("decay", "linear"),
        ("validation_split", 1),
        ("validation_split", 0.0),
        ("groups", "none"),
        ("seed", 1.5),
        ("seed", True),
        ("follow_links", "no"),
        ("data_format", "last"),
    ],
)
def test_options_that_cannot_be_name_the_argument_and_the_value(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name}={value!r}.*expected"):
        TrainOptions(**{name: value})


def test_a_seed_of_either_sign_and_numpy_values_are_written_down_as_plain_ones() -> None:
    options = TrainOptions(seed=np.int64(-5), follow_links=np.True_)
    assert options == TrainOptions(seed=-5, follow_links=True)
    config = replace(make_config(), options=options)
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_changes_are_listed_with_both_values_and_epochs_may_grow() -> None:
    config = make_config()
    assert describe_changes(config, clips=config.clips, options=replace(config.options, epochs=50)) == []
    changes = describe_changes(config, clips=cf.ClipSpec(num_frames=16), options=TrainOptions(batch_size=4))
    assert changes == ["num_frames: 20 when the run began, 16 now", "batch_size: 8 when the run began, 4 now"]
