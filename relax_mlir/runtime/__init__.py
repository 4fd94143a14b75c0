"""What compiled models need while they run: objects, executables, devices."""
