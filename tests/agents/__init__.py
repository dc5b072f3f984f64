"""Questions of agents with known answers, asked in three ways: `python -m tests.agents [--json FILE]`.

    questions   what is asked of worlds and of real traces, and the truth, by plain loops
    ways        ktrace mcp, the shell, and plain JSON with Python: what is called, what an agent takes from the answer

No model is asked. A script stands for an agent: to each kind of question it makes the calls that the descriptions of
the tools suggest, or runs the code that one writes first, and takes the figure that stands where it looks. So what is
measured is whether the answer is there and right, in how many calls and bytes, not whether a model finds it.
"""
