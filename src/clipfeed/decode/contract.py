"""What every decoder takes and gives, so that one may stand in for another, or in another process.

Plan and result pickle; a decoder keeps no state between clips. Nothing here knows FFmpeg.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from clipfeed._types import FrameArray
from clipfeed.records import ClipPlan, Geometry

__all__ = ["DecodedFrames", "Decoder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedFrames:
    """The frames of one plan.

    Attributes:
        frames: (T, *geometry.turned_size, C) uint8 0..255: resized and turned, neither cropped nor padded.
        num_corrupt: How many of the T frames are damaged: flagged by the decoder, or decoded after a flagged frame or a
            lost packet and before the next key frame.
    """

    frames: FrameArray = field(compare=False, repr=False)
    num_corrupt: int = 0


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
