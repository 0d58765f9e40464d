"""A small motion data set made on the spot, and the whole job on it: what `clipfeed demo` runs.

    report = run_demo("clipfeed-demo")
    report.accuracy, report.frame_accuracy, report.chance

`write_demo_videos` alone makes the data set, in HMDB51's layout, for trying other things on.
"""

from clipfeed.demo.files import DemoSize, write_demo_videos
from clipfeed.demo.motion import CLASSES
from clipfeed.demo.run import DemoOptions, DemoReport, run_demo

__all__ = ["CLASSES", "DemoOptions", "DemoReport", "DemoSize", "run_demo", "write_demo_videos"]
