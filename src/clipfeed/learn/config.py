"""What a training run was asked to do: everything needed to repeat it, as data and as JSON.

Nothing here opens a video or a framework. `train` makes a config, `runs` keeps it, `resume`, `evaluate` and `predict`
read it back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

from clipfeed._types import DataFormat
from clipfeed.cache import Codec
from clipfeed.learn.models import MODELS, ModelName
from clipfeed.records import ClipSpec, check_choice, checked_flag, checked_seed
from clipfeed.sample import AtRate, Dense, Segments, Stride, Uniform

__all__ = ["Decay", "RunConfig", "SplitSource", "TrainOptions", "describe_changes"]

Decay: TypeAlias = Literal["none", "cosine"]

SplitSource: TypeAlias = Literal["split", "folders", "given"]
"""Who cut the parts: `cf.split_index`, folders named train, val and test, or the caller."""

FORMAT_VERSION = 1

_POLICIES = {policy.__name__: policy for policy in (Uniform, Stride, Segments, Dense, AtRate)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """How to train.

    Args:
        model: "lrcn", "convlstm" or "conv3d"; see `build_model`.
        epochs: Passes over the training part, at least 1.
        batch_size: Clips in a batch, at least 1.
        learning_rate: Of the Adam optimizer, above 0; Keras's default.
        decay: "none", or "cosine": the rate falls from `learning_rate` in the first epoch towards 0 after the last,
            which ends on calmer weights but fixes the number of epochs in advance.
        validation_split: Share of the data for validation, between 0 and 1; not used where folders or the caller have
            cut the parts.
        groups: "auto": videos of one source stay on one side; None: a random split file by file, which leaks.
        seed: Any whole number; for the split, the order, random clips, initial weights and dropout.
        data_format: "channels_last" (T, H, W, C) or "channels_first" (C, T, H, W), as the model sees its clips.
        follow_links: Whether linked folders are visited.

    Raises:
        ValueError: For a value that no training can have; names the value and what is allowed.
    """

    model: ModelName = "lrcn"
    epochs: int = 30
    batch_size: int = 8
    learning_rate: float = 0.001
    decay: Decay = "none"
    validation_split: float = 0.2
    groups: Literal["auto"] | None = "auto"
    seed: int = 0
    data_format: DataFormat = "channels_last"
    follow_links: bool = False

    def __post_init__(self) -> None:
        check_choice("model", self.model, MODELS)
        check_choice("decay", self.decay, get_args(Decay))
        check_choice("groups", self.groups, ("auto", None))
        check_choice("data_format", self.data_format, get_args(DataFormat))
        for name in ("epochs", "batch_size"):
            _check_count(name, getattr(self, name))
        object.__setattr__(self, "seed", checked_seed(self.seed))  # plain values, as JSON has them
        object.__setattr__(self, "follow_links", checked_flag("follow_links", self.follow_links))
        if not _is_number(self.learning_rate) or not 0 < self.learning_rate < float("inf"):
            raise ValueError(f"learning_rate={self.learning_rate!r}: expected a number above 0, such as 0.001")
        if not _is_number(self.validation_split) or not 0 < self.validation_split < 1:
            raise ValueError(f"validation_split={self.validation_split!r}: expected a number between 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Everything needed to repeat a run.

    Attributes:
        directory: Folder of the videos, absolute.
        index: Folder in which the index is kept, absolute; None for the user's cache folder.
        clips: What a clip looks like.
        options: How to train.
        codec: "jpeg" where frames were kept as JPEG, which changes pixels; "raw" for frames as they were decoded, kept
            or not. Where they were kept is not part of a run.
        split_source: Who cut the parts.
        backend: Keras's backend when the run began.
        versions: Versions of what took part when the run began; kept for the record, never compared.
    """

    directory: str
    index: str | None = None
    clips: ClipSpec
    options: TrainOptions
    codec: Codec = "raw"
    split_source: SplitSource
    backend: str
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("codec", self.codec, get_args(Codec))

    def to_json(self) -> dict[str, Any]:
        """Give the config as JSON knows it."""
        plain = {name: getattr(self, name) for name in ("directory", "index", "codec", "split_source", "backend")}
        return {
            "format_version": FORMAT_VERSION,
            **plain,
            "clips": _fields_of(self.clips) | {"sampling": _policy_to_json(self.clips)},
            "options": _fields_of(self.options),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunConfig:
        """Read what `to_json` gave.

        Raises:
            ValueError: If another version of the format wrote it.
        """
        facts = dict(document)
        version = facts.pop("format_version", None)
        if version != FORMAT_VERSION:
            raise ValueError(f"format_version={version!r}: expected {FORMAT_VERSION}")
        clips = facts.pop("clips")
        sampling = _policy_from_json(clips["sampling"])
        size = tuple(clips["image_size"])
        return cls(
            clips=ClipSpec(**{**clips, "image_size": size, "sampling": sampling}),
            options=TrainOptions(**facts.pop("options")),
            **facts,
        )


def describe_changes(old: RunConfig, *, clips: ClipSpec | None, options: TrainOptions | None) -> list[str]:
    """Say what is asked for now that the run was not begun with; the number of epochs may differ.

    Args:
        old: The run's config.
        clips: What is asked for now; None for the same.
        options: What is asked for now; None for the same.

    Returns:
        One line a change, such as "batch_size: 8 when the run began, 4 now".
    """
    pairs: list[tuple[Any, Any]] = [(old.clips, clips or old.clips), (old.options, options or old.options)]
    return [
        f"{name}: {before[name]!r} when the run began, {now[name]!r} now"
        for before, now in ((_fields_of(one), _fields_of(other)) for one, other in pairs)
        for name in before
        if before[name] != now[name] and name != "epochs"
    ]


def _fields_of(record: Any) -> dict[str, Any]:  # noqa: ANN401  # a dataclass
    return {entry.name: getattr(record, entry.name) for entry in fields(record)}


def _policy_to_json(clips: ClipSpec) -> object:
    policy = clips.sampling
    if isinstance(policy, str):
        return policy
    if type(policy) not in _POLICIES.values() or not dataclasses.is_dataclass(policy):
        raise ValueError(
            f"sampling={policy!r}: a run can be repeated only with a policy of clipfeed's own, {', '.join(_POLICIES)}"
        )
    options = {name: str(value) if isinstance(value, Fraction) else value for name, value in _fields_of(policy).items()}
    return {"policy": type(policy).__name__, **options}


def _policy_from_json(document: Any) -> Any:  # noqa: ANN401  # a name, or a policy
    if isinstance(document, str):
        return document
    options = dict(document)
    return _POLICIES[options.pop("policy")](**options)


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r}: expected a whole number of at least 1")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
