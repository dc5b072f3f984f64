"""What people and agents ask for, made of the answers to single questions (`ktrace.analysis.questions`).

summary/    where the time went
diff/       what changed
whatif/     what would help: the times of a recording with a change
query/      SQL on a trace, with DuckDB
mcp/        all of these for agents, by the Model Context Protocol
"""
