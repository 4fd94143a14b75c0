from captcha_recognizer.slider import Slider
from report import report

report(Slider().identify(source="slider.png"))
