from magika import Magika
from report import report

TEXTS = (
    b"import os\nprint(os.path.join('a', 'b'))\nclass A:\n  def f(self): return 1\n"
    * 5,
    b"<html><body><p>hello</p></body></html>" * 9,
    b'{"a": [1, 2, 3], "b": {"c": null}}' * 4,
)
found = map(Magika().identify_bytes, TEXTS)
report(*((f.output.label, f.score) for f in found))
