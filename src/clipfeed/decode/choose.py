"""The decoder of a name. Nothing here falls back from one to the other."""

from __future__ import annotations

from clipfeed.decode.contract import Decoder, DecoderName
from clipfeed.decode.lean import LeanDecoder
from clipfeed.decode.plain import PlainDecoder
from clipfeed.records import check_choice

__all__ = ["make_decoder"]


def make_decoder(name: DecoderName = "auto", *, timeout_seconds: float = 60.0) -> Decoder:
    """Give a decoder.

    Args:
        name: "auto" leaves out what no wanted frame needs; "plain" decodes everything. Frames are the same.
        timeout_seconds: Longest time for one clip, or one chunk of a long one.

    Raises:
        ValueError: For another name, or a time that is not above 0.
    """
    check_choice("decoder", name, ("auto", "plain"))
    return (
        LeanDecoder(timeout_seconds=timeout_seconds)
        if name == "auto"
        else PlainDecoder(timeout_seconds=timeout_seconds)
    )
