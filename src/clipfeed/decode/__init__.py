"""From a plan to pixels: the frames a plan asks for, already resized, as uint8.

`contract` says what a decoder is, `pixels` how a decoded frame becomes rows of an array. `plain` is the decoder that is
right by construction; `choose` makes a decoder by name. Nothing here chooses frames, crops, or keeps a file open after
its clip. `sample` has planned the clip; `transform` will put crop and black borders around what comes out.

`lean` leaves out what no wanted frame needs. It follows a route, of packets to send and frames to expect (`route`),
that others make: `references` for MPEG-1, MPEG-2 and MPEG-4 part 2, `timed` for H.264, `mjpeg` for Motion JPEG. What
packets say is read by `mpeg12`, `mpeg4` and `h264`.
"""

from clipfeed.decode.choose import make_decoder
from clipfeed.decode.contract import DecodedFrames, Decoder, DecoderName
from clipfeed.decode.lean import LeanDecoder
from clipfeed.decode.pixels import pixel_facts, reformat_arguments
from clipfeed.decode.plain import PlainDecoder

__all__ = [
    "DecodedFrames",
    "Decoder",
    "DecoderName",
    "LeanDecoder",
    "PlainDecoder",
    "make_decoder",
    "pixel_facts",
    "reformat_arguments",
]
