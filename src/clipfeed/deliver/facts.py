"""What an adapter's result says of the dataset under it, besides giving its batches."""

from __future__ import annotations

from clipfeed.dataset import VideoDataset

__all__ = ["DatasetFacts"]


class DatasetFacts:
    """The attributes that Keras's own directory functions hang on their results, read from `clipfeed`.

    Attributes:
        clipfeed: The `VideoDataset` under it.
    """

    clipfeed: VideoDataset

    @property
    def class_names(self) -> list[str] | None:
        """Text of each label in label order."""
        return None if self.clipfeed.class_names is None else list(self.clipfeed.class_names)

    @property
    def file_paths(self) -> list[str]:
        """One path an example, aligned with iteration in evaluation."""
        return self.clipfeed.file_paths

    @property
    def labels(self) -> object:
        """One label an example, aligned with `file_paths`; None without labels."""
        return self.clipfeed.labels
