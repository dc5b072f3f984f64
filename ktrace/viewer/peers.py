"""Finds the user whose program is at the other end of a local connection, from Linux's /proc/net/tcp.

sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
 1: 0100007F:9F3A 0100007F:2329 01 00000000:00000000 00:00000000 00000000  1000        0 48211
"""

from __future__ import annotations

import socket
import sys

_ADDRESS = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"


def user_of(there: int, here: int) -> int | None:
    """Returns the user id of the program connected from port `there` to port `here` of 127.0.0.1.

    None on systems other than Linux, or if the connection isn't listed.
    """
    ends = f"{_ADDRESS}:{there:04X}", f"{_ADDRESS}:{here:04X}"
    for table in (
        "/proc/self/net/tcp",
        "/proc/self/net/tcp6",
    ):  # the last part of such an IPv6 address is the IPv4 address
        try:
            with open(table, encoding="ascii") as lines:
                for line in lines:
                    fields = line.split()
                    if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                        return int(fields[7])
        except OSError:
            continue
    return None
