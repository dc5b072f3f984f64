"""Answers for agents, by the Model Context Protocol (MCP): what `ktrace mcp` serves.

client ──► server, http ──► tools ──► session ──► Summary, Diff, SQL
                                         └──► access: what may be read and written

access      folders that may be read, the one that may be written
session     the open traces of a server behind handles, and what was computed of them, bounded in memory
answers     tables within limits of rows and bytes, with cursors; JSON Schemas of arguments and answers
tools       what can be asked
server      the protocol, on standard input and output; pages of the docs as resources
http        the same by HTTP on this machine, for whoever has the token
sizes       what a trace takes in memory
"""
