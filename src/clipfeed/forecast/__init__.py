"""What a folder of videos asks of this machine, before anything is trained: memory, time, disk, batch size.

    told = cf.forecast_directory("HMDB51", num_frames=20, image_size=(64, 64))
    print(told)                      # the report that `clipfeed forecast` prints
    told.first_epoch_seconds.middle  # every figure in it

    report    what is foretold, as plain records; text: as lines for people
    measure   speeds of this machine, on some of the files
    training  memory of a model in training
    code      the lines to paste
    run       all of it on a folder: `forecast_directory`

Arithmetic where arithmetic will do; what must be measured is measured for a few seconds with the code that training
runs; what is neither is called an estimate and has a range. Nothing is kept but the index.
"""

from clipfeed.forecast.report import Decoding, Forecast, Machine, Range, Reading, TrainingMemory
from clipfeed.forecast.run import Speeds, forecast_directory

__all__ = ["Decoding", "Forecast", "Machine", "Range", "Reading", "Speeds", "TrainingMemory", "forecast_directory"]
