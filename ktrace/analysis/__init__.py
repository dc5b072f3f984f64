"""What is made of traces: answers, in three layers, of which each imports only those below it.

answers/      what a person or an agent asks for: summary, diff, query (SQL), mcp
questions/    answers to one question each, by which answers go on
work/         device work, its calls, and the host around them; all others begin with it
"""
