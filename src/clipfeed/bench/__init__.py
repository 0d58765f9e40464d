"""What this machine makes of a folder of videos: where the time goes, how fast clips come, and what would help.

    report    what is found out, as plain records
    stages    one thread's time, stage by stage, through the package's own code
    speed     clips a second, with one thread and with all, and from a cache
    fitting   how long a real `fit` waits for its data
    trials    a cache and re-encoding, tried on the same videos in a temporary folder
    advice    what would help, each with the figure behind it
    run       all of it on a folder: `bench_directory`

Nothing here makes clips in a way of its own: a dataset is run as training runs it, and the clock of `clipfeed.clock` is
read. Figures are of this machine at this hour.
"""

from clipfeed.bench.report import Advice, BenchReport, FitWait, Rate, StageTime
from clipfeed.bench.run import BenchOptions, bench_directory

__all__ = ["Advice", "BenchOptions", "BenchReport", "FitWait", "Rate", "StageTime", "bench_directory"]
