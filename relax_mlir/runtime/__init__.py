"""Runtime of compiled models: arrays, executables, devices, file formats."""
