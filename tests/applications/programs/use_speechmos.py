import numpy as np
from report import report
from speechmos import dnsmos

found = dnsmos.run(np.load("speech.npy"), 16000)
report(*sorted(found.items()))
