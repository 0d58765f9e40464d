"""Re-encoding a set of videos for training: smaller pictures, cheap to decode, times and number of frames kept.

    index -> one job a video: decode -> redraw -> encode -> probe -> final name -> a line in the manifest

`settings` says what comes out, `naming` under which names, `output` guards the folder and its manifest, `times` keeps
every frame's time, `reencode` makes one video, `run` makes them all, `speed` compares the clips of both. Nothing here
changes, moves or removes a source. Beside the journey: what comes out is a data set like any other.
"""

from clipfeed.transcode.run import TranscodeReport, transcode_directory
from clipfeed.transcode.speed import DecodingSpeed

__all__ = ["DecodingSpeed", "TranscodeReport", "transcode_directory"]
