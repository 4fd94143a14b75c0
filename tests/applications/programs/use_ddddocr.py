from pathlib import Path

import ddddocr
from report import report

picture = Path("captcha.png").read_bytes()
reader = ddddocr.DdddOcr(show_ad=False)
finder = ddddocr.DdddOcr(det=True, show_ad=False)
report(reader.classification(picture), finder.detection(Path("photo.png").read_bytes()))
