import cv2
from rapid_layout import RapidLayout
from report import report

found = RapidLayout()(cv2.imread("text.png"))
report(found.class_names, found.boxes, found.scores)
