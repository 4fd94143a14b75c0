from nudenet import NudeDetector
from report import report

found = NudeDetector().detect("photo.png")
report(*((f["class"], f["score"], f["box"]) for f in found))
