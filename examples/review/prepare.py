"""Writes a table with the given number of rows. Sandboxes cloned afterwards contain it."""

import argparse
import csv
import random

arguments = argparse.ArgumentParser()
arguments.add_argument("--rows", type=int, required=True)
rows = arguments.parse_args().rows

random.seed(7)
with open("/data/table.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["id", "value"])
    table.writerows([number, round(random.gauss(0, 1), 6)] for number in range(rows))
print(f"{rows} rows")
