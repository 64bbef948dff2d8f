"""ETC's pre-training and its four data sets, as in its paper."""
