"""What is foretold, as plain records with the unit of each figure in its name. Nothing here measures or counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from clipfeed.learn.models import ModelName
from clipfeed.records import Failure

__all__ = ["CacheAdvice", "Decoding", "Forecast", "Machine", "Range", "Reading", "TrainingMemory"]

CacheAdvice: TypeAlias = Literal["raw", "jpeg"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A figure that is not known exactly.

    Attributes:
        low: It may well be as little.
        middle: The best guess.
        high: It may well be as much.
    """

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What this machine has left.

    Attributes:
        memory_available_bytes: Memory that may still be taken, control groups accounted for; None if nobody says.
        cores: Cores that this process may keep busy.
        cache_folder: Where `cache="disk"` would keep frames.
        disk_free_bytes: Free space there.
    """

    memory_available_bytes: int | None
    cores: int
    cache_folder: str
    disk_free_bytes: int

    def holds(self, num_bytes: int) -> bool | None:
        """Tell whether so many bytes fit into memory; None if nobody says."""
        return None if self.memory_available_bytes is None else num_bytes <= self.memory_available_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How fast some of the videos were decoded, one clip each, with all workers.

    Attributes:
        num_clips: Clips that were made.
        num_failed: Clips that could not be had.
        seconds: Wall time.
        source_pixels: Pixels of all frames of these videos, at their own size.
        source_bytes: Bytes of their files.
        spread: How far the whole may be off as a share, since only some videos were decoded: 0 to 1.
        jpeg_share: Bytes of some of the frames as JPEG, as a share of their raw bytes; None if no clip could be had.
    """

    num_clips: int
    num_failed: int
    seconds: float
    source_pixels: int
    source_bytes: int
    spread: float
    jpeg_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How fast frames that were kept come back as float32 batches, in one thread.

    Attributes:
        memory_bytes_per_second: uint8 bytes a second from the page cache, gathered clip by clip and cast.
        disk_bytes_per_second: Bytes a second from the disk itself; None where the page cache cannot be told to forget.
    """

    memory_bytes_per_second: float
    disk_bytes_per_second: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMemory:
    """What a model takes of a GPU's memory while it is trained: an estimate from counting.

    Attributes:
        model: Name of the model.
        gpu_memory_bytes: Memory of the GPU.
        num_parameters: Weights of the model.
        parameter_bytes: Weights, their gradients, and the two moments that Adam keeps of each, in float32.
        reserved_bytes: What driver, libraries and fragmentation take.
        clip_bytes: What is kept of one clip until its gradients are known.
        max_batch_size_low: Clips that memory holds if everything takes as much as it may; 0 if none.
        max_batch_size_high: Clips that memory holds if everything takes as little as it may.
        batch_size_low: Clips to begin with; 0 if not one fits for certain.
        batch_size_high: Clips to go up to.
    """

    model: ModelName
    gpu_memory_bytes: int
    num_parameters: int
    parameter_bytes: int
    reserved_bytes: Range
    clip_bytes: Range
    max_batch_size_low: int
    max_batch_size_high: int
    batch_size_low: int
    batch_size_high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a folder of videos asks of this machine; `print` shows it as a report.

    Attributes:
        root: The folder.
        num_videos: Videos that give clips, of the parts that an epoch reads.
        num_classes: Classes.
        num_clips: Clips of one epoch: training and, where there is one, validation.
        num_frames: Frames of all these videos together.
        clip_shape: (T, H, W, C).
        batch_size: Clips in a batch; None for single clips.
        machine: What this machine has left.
        naive_clips_bytes: All clips as one float32 array.
        naive_frames_bytes: All frames of all videos, resized, as float32.
        memory_bytes: Most that clipfeed holds: a batch, clips ahead and frames in work.
        memory_budget_bytes: The limit that was given.
        memory_arithmetic: How `memory_bytes` comes about, in one line.
        cache_raw_bytes: Disk space of the cache, frames bit for bit; exact.
        cache_jpeg_bytes: Disk space of the cache as JPEG, estimated on some frames; None if none could be had.
        cache_advice: What fits on the disk: "raw", "jpeg", or None.
        first_epoch_seconds: Time to decode an epoch's clips here; None if no clip could be had.
        later_epoch_seconds: Time to read them from the cache here; None if the cache's folder cannot be written.
        decoding: What the first epoch's time was measured on.
        reading: What the later epochs' time was measured on; None if it could not be.
        workers: Decoding threads.
        shuffle_buffer_clips: Clips that a shuffle buffer would have to hold: 0, for there is none.
        training: Memory of the model in training; None where it cannot be told.
        training_missing: Why not; None where it can.
        code: The lines to paste.
        left_out: Files that give no clip, and why.
    """

    root: str
    num_videos: int
    num_classes: int
    num_clips: int
    num_frames: int
    clip_shape: tuple[int, int, int, int]
    batch_size: int | None
    machine: Machine
    naive_clips_bytes: int
    naive_frames_bytes: int
    memory_bytes: int
    memory_budget_bytes: int
    memory_arithmetic: str
    cache_raw_bytes: int
    cache_jpeg_bytes: int | None
    cache_advice: CacheAdvice | None
    first_epoch_seconds: Range | None
    later_epoch_seconds: Range | None
    decoding: Decoding
    reading: Reading | None
    workers: int
    shuffle_buffer_clips: int = 0
    training: TrainingMemory | None
    training_missing: str | None
    code: str = field(repr=False)
    left_out: tuple[Failure, ...] = field(repr=False)

    @property
    def naive_clips_fit(self) -> bool | None:
        """Whether one array of all clips fits into memory; None if nobody says."""
        return self.machine.holds(self.naive_clips_bytes)

    @property
    def naive_frames_fit(self) -> bool | None:
        """Whether all frames fit into memory; None if nobody says."""
        return self.machine.holds(self.naive_frames_bytes)

    def as_dict(self) -> dict[str, Any]:
        """Give all figures, ready for JSON."""
        return {**asdict(self), "naive_clips_fit": self.naive_clips_fit, "naive_frames_fit": self.naive_frames_fit}

    def __str__(self) -> str:
        from clipfeed.forecast.text import report_of  # which reads these records

        return report_of(self)
