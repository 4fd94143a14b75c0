import numpy as np
from report import report
from swift_f0 import SwiftF0

time = np.arange(16000) / 16000
tone = (0.5 * np.sin(2 * np.pi * 220 * time)).astype(np.float32)
found = SwiftF0().detect(tone, 16000)
report(found.pitch_hz[2:-2], found.loudness_db[2:-2])
