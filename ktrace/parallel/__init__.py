"""Work at the same time: forked processes, threads that read ahead and write behind."""
