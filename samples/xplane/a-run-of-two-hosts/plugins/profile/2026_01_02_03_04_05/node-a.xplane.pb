
P/device:GPU:0%Stream #7(Kernel)–"¿Ñ=¿ç∑"kernel of node-a
eTask Environment*profile_start_time*profile_stop_time2Ä‰ÿ‰°ﬁ≤√2¿˙âÁ°ﬁ≤√"node-a