"""PTX cases whose results were recorded on hardware, one module per family of instructions."""
