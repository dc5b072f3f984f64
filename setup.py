"""Computes which folders are packages: the given top-level folders install below `ktrace`."""

from setuptools import find_packages, setup

GIVEN = ("converters", "schema", "proto")

core = find_packages(include=["ktrace", "ktrace.*"])
# The links ktrace/converters -> ../converters (and so on) make the same folders seen twice: count them once.
packages = [name for name in core if not name.startswith(tuple(f"ktrace.{folder}" for folder in GIVEN))]
package_dir = {"ktrace": "ktrace"}
for folder in GIVEN:
    packages += [f"ktrace.{folder}", *(f"ktrace.{folder}.{name}" for name in find_packages(folder))]
    package_dir[f"ktrace.{folder}"] = folder

setup(packages=packages, package_dir=package_dir)
