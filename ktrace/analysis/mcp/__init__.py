"""Answers for agents, by the Model Context Protocol (MCP): what `ktrace mcp` serves.

client ──► server ──► tools ──► session ──► opened ──► Summary, Diff, SQL
                                   └──► access: what may be read and written

access      folders that may be read, the one that may be written
opened      a trace that stays in memory behind a handle, and what was computed of it
session     the open traces of a server, bounded in memory
paging      tables within limits of rows and bytes, with cursors
shapes      JSON Schemas of arguments and answers
tools       what can be asked
pages       pages of the documentation as resources
server      the protocol, on standard input and output or by HTTP on this machine
"""
