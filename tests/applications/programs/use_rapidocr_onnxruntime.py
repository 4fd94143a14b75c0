import cv2
from rapidocr_onnxruntime import RapidOCR
from report import report

found, _ = RapidOCR()(cv2.imread("text.png"))
report(*((text, float(score), box) for box, text, score in found))
