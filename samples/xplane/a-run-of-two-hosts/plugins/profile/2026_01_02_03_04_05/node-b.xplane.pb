
P/device:GPU:0%Stream #7(Kernel)–"†¬¿ç∑"kernel of node-b
eTask Environment*profile_start_time*profile_stop_time2ÄÌ“Â°ﬁ≤√2¿ÉÑË°ﬁ≤√"node-b