"""Huawei Ascend: the types of the device's tasks, the files of a profile.

tasks     kernel, copy, synchronisation by task type
folder    which files of a folder are read; the others repeat them
"""
