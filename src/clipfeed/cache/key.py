"""What a pack is of: everything that decides its pixels, as named fields.

No path and no time of change is among them, so a data set that was moved or copied finds its pack again. Which video an
entry holds is said by the entry (see `entries`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Self

__all__ = ["FORMAT", "PackKey"]

FORMAT = 1  # of the files; another one is another pack


@dataclass(frozen=True, slots=True, kw_only=True)
class PackKey:
    """Named fields that decide what a pack holds.

    Attributes:
        clip_length: T where each entry is one clip; None where it is all frames of a video.
        frame_shape: (H, W, C) of a frame.
        fields: (name, value) of everything else that decides pixels: sampling, interpolation, versions of the decoder.
    """

    clip_length: int | None
    frame_shape: tuple[int, int, int]
    fields: tuple[tuple[str, str], ...]

    @property
    def frame_bytes(self) -> int:
        """Bytes of one frame."""
        height, width, channels = self.frame_shape
        return height * width * channels

    @property
    def text(self) -> str:
        """The fields as JSON, the same for equal keys; a pack's folder keeps them for people to read."""
        facts = {
            "format": FORMAT,
            "entries": "videos" if self.clip_length is None else "clips",
            "clip_length": self.clip_length,
            "frame_shape": list(self.frame_shape),
            **dict(self.fields),
        }
        return json.dumps(facts, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `text` gave.

        Raises:
            ValueError: For anything else.
        """
        try:
            facts = dict(json.loads(text))
            del facts["format"], facts["entries"]
            length, (height, width, channels) = facts.pop("clip_length"), facts.pop("frame_shape")
            key = cls(clip_length=length, frame_shape=(height, width, channels), fields=tuple(sorted(facts.items())))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"it is no description of a pack: {error!r}") from error
        if key.text != text:
            raise ValueError("it was changed, or another version of clipfeed wrote it")
        return key

    @property
    def digest(self) -> str:
        """32 hexadecimal digits: the name of the pack's folder."""
        return hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest()
