"""From a plan to pixels: the frames a plan asks for, already resized, as uint8.

`contract` says what a decoder is, `pixels` how a decoded frame becomes rows of an array. `plain` is the decoder that is
right by construction, `lean` one that leaves out what no wanted frame needs, which `mpeg4` knows; `choose` makes one of
them. Nothing here chooses frames, crops, or keeps a file open after its clip. `sample` has planned the clip;
`transform` will put crop and black borders around what comes out.
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
