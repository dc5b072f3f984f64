"""Whose program is at the other end of a connection on this machine: Linux says so in /proc/net/tcp.

sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
 1: 0100007F:9F3A 0100007F:2329 01 00000000:00000000 00:00000000 00000000  1000        0 48211
"""

from __future__ import annotations

import socket
import sys

_ADDRESS = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"


def user_of(there: int, here: int) -> int | None:
    """The user id of the program that has connected from port `there` to port `here` of 127.0.0.1.

    None where the system doesn't tell (others than Linux) or where it doesn't know the connection.
    """
    ends = f"{_ADDRESS}:{there:04X}", f"{_ADDRESS}:{here:04X}"
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):  # of IPv6 addresses the last part is that of IPv4
        try:
            with open(table, encoding="ascii") as lines:
                for line in lines:
                    fields = line.split()
                    if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                        return int(fields[7])
        except OSError:
            continue
    return None
