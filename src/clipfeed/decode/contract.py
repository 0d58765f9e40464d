"""What every decoder takes and gives, so that one may stand in for another, or in another process.

Plan and result pickle; a decoder keeps no state between clips. Nothing here knows FFmpeg.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import FrameArray
from clipfeed.records import ClipPlan, Geometry

__all__ = ["DecodedFrames", "Decoder", "DecoderName"]

DecoderName: TypeAlias = Literal["auto", "plain"]
"""Which decoder: the one that leaves out what it can, or the one that decodes everything. Frames are the same."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecodedFrames:
    """The frames of one plan, or of a part of it.

    Attributes:
        frames: (T, *geometry.turned_size, C) uint8 0..255: resized and turned, neither cropped nor padded.
        is_damaged: (T,) bool, True where a frame is flagged by the decoder, or was decoded after a flagged one or a
            lost packet and before the next key frame.
    """

    frames: FrameArray = field(repr=False)
    is_damaged: NDArray[np.bool_]

    @property
    def num_corrupt(self) -> int:
        """How many of the frames are damaged."""
        return int(np.count_nonzero(self.is_damaged))


class Decoder(Protocol):
    """Makes the frames of a plan."""

    def decode(self, plan: ClipPlan, geometry: Geometry, *, out: FrameArray | None = None) -> DecodedFrames:
        """Give exactly the frames of the plan, bit for bit those of a sequential decode.

        Args:
            plan: Which frames of which video; indices may repeat and come in any order.
            geometry: The size, turn, channels and filter; crop and pad are not the decoder's business.
            out: (T, *geometry.turned_size, C) uint8 to write into; None allocates.

        Returns:
            One frame for each index of the plan, in the plan's order; `frames` is `out` where that was given.

        Raises:
            DecodeError: If a frame of the plan cannot be had; names the first one.
            StaleIndexError: If the file is gone or is not the one that was indexed.
        """

    def decode_chunks(self, plan: ClipPlan, geometry: Geometry, *, frames_at_once: int = 32) -> Iterator[DecodedFrames]:
        """Give the frames of the plan in chunks, from one pass; for videos too long to be in memory as a whole.

        Args:
            plan: Which frames of which video; they come in the video's order, each once, whatever the plan's.
            geometry: As for `decode`.
            frames_at_once: Frames in a chunk, at least 1; the last chunk may have fewer.

        Returns:
            One chunk after the other. The frames of a chunk are overwritten when the next one is asked for.

        Raises:
            ValueError: If `frames_at_once` is below 1; at once.
            DecodeError: As for `decode`; when the chunk that lacks a frame is asked for.
            StaleIndexError: As for `decode`; when the first chunk is asked for.
        """
