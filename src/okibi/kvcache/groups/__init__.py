"""Groups of layers, one file for each rule of what stays needed."""
